// SPDX-License-Identifier: Apache-2.0

// Writes src/types.ts: the answers of the API, from its OpenAPI document.
import { readFileSync, writeFileSync } from 'node:fs'

const here = new URL('.', import.meta.url)
const { schemas } = JSON.parse(readFileSync(new URL('../../docs/reference/collector-api.json', here))).components

function typeOf(s) {
  if (s.$ref) return s.$ref.split('/').pop()
  if (s.oneOf || s.anyOf) return (s.oneOf ?? s.anyOf).map(typeOf).join(' | ')
  if (s.enum) return s.enum.map((v) => JSON.stringify(v)).join(' | ')
  const kinds = [s.type].flat().filter((t) => t !== 'null')
  switch (kinds[0]) {
    case 'array': return `${wrapped(typeOf(s.items))}[]`
    case 'object': return s.additionalProperties ? `Record<string, ${typeOf(s.additionalProperties)}>` : 'Record<string, unknown>'
    case 'integer': case 'number': return 'number'
    case 'boolean': return 'boolean'
    case 'string': return 'string'
    default: return 'unknown'
  }
}

const wrapped = (text) => (text.includes('|') ? `(${text})` : text)

let out = '// SPDX-License-Identifier: Apache-2.0\n\n// Made by `npm run types` from docs/reference/collector-api.json; do not edit.\n'
for (const [name, schema] of Object.entries(schemas)) {
  out += `\nexport interface ${name} {\n`
  for (const [key, property] of Object.entries(schema.properties ?? {})) {
    // A node_id of 56 bits is no exact number here; see exact in ask.ts.
    const type = key === 'node_id' ? 'number | string' : typeOf(property)
    if (property.description) out += `  /** ${property.description.replaceAll('*/', '')} */\n`
    out += `  ${/^\w+$/.test(key) ? key : JSON.stringify(key)}${schema.required?.includes(key) ? '' : '?'}: ${type}\n`
  }
  out += '}\n'
}
writeFileSync(new URL('src/types.ts', here), out)
