// CloudFront runs this before it sends a request to the function. It lets a request pass that has
// a key in x-api-key and the hash of its body in x-amz-content-sha256, and answers all others in
// the form of OpenAI's errors.
//
// The key value store has the SHA-256 of each valid key, in hexadecimal, and no key. If it cannot
// be read, the runtime answers 503: without a check no request passes.
// https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/functions-javascript-runtime-20.html
import cf from 'cloudfront';
const crypto = require('crypto');

const keys = cf.kvs();
// Lambda refuses a request with a body whose signature does not cover the body.
const WITHOUT_BODY = ['GET', 'HEAD', 'OPTIONS'];

async function handler(event) {
    const request = event.request;
    const key = request.headers['x-api-key'];
    if (!key || !(await keys.exists(sha256(key.value)))) {
        return refusal(401, 'Unauthorized', 'invalid_api_key',
            'The header x-api-key is missing or has no valid API key.');
    }
    const hash = request.headers['x-amz-content-sha256'];
    if (!WITHOUT_BODY.includes(request.method) && !(hash && /^[0-9a-f]{64}$/.test(hash.value))) {
        return refusal(400, 'Bad Request', 'missing_body_hash',
            'The header x-amz-content-sha256 must have the SHA-256 of the body, as 64 hexadecimal ' +
            'digits in lower case.');
    }
    // The function needs no key, so it gets none.
    delete request.headers['x-api-key'];
    return request;
}

function sha256(text) {
    return crypto.createHash('sha256').update(text).digest('hex');
}

function refusal(status, description, code, message) {
    const error = { message: message, type: 'invalid_request_error', param: null, code: code };
    return {
        statusCode: status,
        statusDescription: description,
        headers: {
            'content-type': { value: 'application/json' },
            'cache-control': { value: 'no-store' },
        },
        body: { encoding: 'text', data: JSON.stringify({ error: error }) },
    };
}
