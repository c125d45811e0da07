import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.security.MessageDigest;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.HexFormat;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Sends a signed request as Java's HttpClient does by default, which offers HTTP/2; prints the answer. */
public class Embed {
  static byte[] hmac(byte[] key, String text) throws Exception {
    Mac mac = Mac.getInstance("HmacSHA256");
    mac.init(new SecretKeySpec(key, "HmacSHA256"));
    return mac.doFinal(text.getBytes("UTF-8"));
  }

  static String sha256(String text) throws Exception {
    return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(text.getBytes("UTF-8")));
  }

  public static void main(String[] arguments) throws Exception {
    URI url = URI.create(arguments[0]);
    String body = "{\"texts\": " + arguments[1] + "}";
    String token = System.getenv("AWS_SESSION_TOKEN");
    String time = ZonedDateTime.now(ZoneOffset.UTC).format(DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'"));
    String scope = time.substring(0, 8) + "/" + System.getenv("AWS_REGION") + "/lambda/aws4_request";
    String names = "host;x-amz-date;x-amz-security-token";
    String headers = "host:" + url.getAuthority() + "\nx-amz-date:" + time + "\nx-amz-security-token:" + token + "\n";
    String canonical = "POST\n/\n\n" + headers + "\n" + names + "\n" + sha256(body);
    byte[] key = ("AWS4" + System.getenv("AWS_SECRET_ACCESS_KEY")).getBytes("UTF-8");
    for (String part : scope.split("/")) key = hmac(key, part);
    String text = "AWS4-HMAC-SHA256\n" + time + "\n" + scope + "\n" + sha256(canonical);
    String authorization = "AWS4-HMAC-SHA256 Credential=" + System.getenv("AWS_ACCESS_KEY_ID") + "/" + scope
        + ", SignedHeaders=" + names + ", Signature=" + HexFormat.of().formatHex(hmac(key, text));
    HttpRequest request = HttpRequest.newBuilder(url)
        .header("x-amz-date", time)
        .header("x-amz-security-token", token)
        .header("authorization", authorization)
        .POST(HttpRequest.BodyPublishers.ofString(body))
        .build();
    HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
    if (answer.statusCode() != 200) throw new Exception(answer.body());
    System.out.println(answer.body());
  }
}
