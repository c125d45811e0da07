// Reads a JSON list of IAM questions from stdin and answers each with an independent evaluator of IAM
// policies: allowed or not.
import { text } from 'node:stream/consumers'
import { runSimulation } from '@cloud-copilot/iam-simulate'

const answers = []
for (const question of JSON.parse(await text(process.stdin))) {
  const result = await runSimulation({
    request: {
      principal: question.principal,
      action: question.action,
      resource: { resource: question.resource, accountId: question.account },
      contextVariables: question.context
    },
    identityPolicies: question.identity.map((policy, index) => ({ name: `policy-${index}`, policy })),
    serviceControlPolicies: [],
    resourceControlPolicies: [],
    resourcePolicy: question.resource_policy ?? undefined
  }, {})
  if (result.resultType === 'error') throw new Error(JSON.stringify(result))
  answers.push(result.overallResult === 'Allowed')
}
process.stdout.write(JSON.stringify(answers))
