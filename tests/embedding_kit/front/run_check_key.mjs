// Runs the CloudFront function on events, with a stand-in of the module `cloudfront`.
//
// Standard input has {code, keys, events}; standard output gets the answers. The code runs in a
// context with `require('crypto')` and nothing else of Node, as in CloudFront's runtime.
import crypto from 'node:crypto'
import vm from 'node:vm'

const chunks = []
for await (const chunk of process.stdin) chunks.push(chunk)
const { code, keys, events } = JSON.parse(Buffer.concat(chunks).toString())

const cf = {
  kvs: () => ({
    exists: async (key) => {
      if (keys === null) throw new Error('the key value store cannot be read')
      return Object.hasOwn(keys, key)
    },
  }),
}
const require = (name) => {
  if (name !== 'crypto') throw new Error(`no module ${name}`)
  return { createHash: crypto.createHash }
}
// A module of CloudFront's runtime is imported by this statement alone.
const imported = code.replace("import cf from 'cloudfront';", '')
if (imported === code) throw new Error('the function does not import its key value store')
const context = vm.createContext({ cf, require })
vm.runInContext(`${imported}\nthis.handler = handler`, context)
const answers = []
for (const event of events) {
  try {
    answers.push(await context.handler(event))
  } catch (error) {
    answers.push({ error: error.message })
  }
}
process.stdout.write(JSON.stringify(answers))
