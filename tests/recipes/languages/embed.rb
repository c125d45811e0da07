# Signs with Ruby's signer of the AWS SDK, and prints the vectors of the texts (JSON in ARGV[1]).
require "aws-sigv4"
require "json"
require "net/http"

url, texts = URI(ARGV[0]), JSON.parse(ARGV[1])
signer = Aws::Sigv4::Signer.new(
  service: "lambda", region: ENV["AWS_REGION"],
  access_key_id: ENV["AWS_ACCESS_KEY_ID"], secret_access_key: ENV["AWS_SECRET_ACCESS_KEY"],
  session_token: ENV["AWS_SESSION_TOKEN"]
)
headers = { "content-type" => "application/json" }
body = JSON.dump(texts: texts)
signed = signer.sign_request(http_method: "POST", url: url.to_s, headers: headers, body: body)
answer = Net::HTTP.post(url, body, headers.merge(signed.headers))
abort answer.body unless answer.code == "200"
puts JSON.dump(JSON.parse(answer.body)["embeddings"])
