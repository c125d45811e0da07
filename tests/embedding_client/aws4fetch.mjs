// Signs one request with aws4fetch and prints the answer: `node --input-type=module --eval CODE URL BODY`.
import { AwsClient } from "aws4fetch";

const [url, body] = process.argv.slice(1);
const client = new AwsClient({
  accessKeyId: "local",
  secretAccessKey: "local",
  service: "lambda",
  region: "us-east-1",
  retries: 0,
});
const headers = { "content-type": "application/json" };
const response = await client.fetch(url, { method: "POST", headers, body });
console.log(JSON.stringify({ status: response.status, body: await response.json() }));
