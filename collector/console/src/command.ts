// SPDX-License-Identifier: Apache-2.0

// The commands that ask the same as a screen.
import { address, type Question } from './ask'

// What `waymark NOUN history` takes; the rest of a question says how it is shown.
const flows = { source: 'source', destination: 'destination', port: 'port', source_port: 'source-port', destination_port: 'destination-port', next_header: 'protocol', namespace: 'namespace', where: 'where' }
const ways = { segment: 'segment', from_node_id: 'from-node-id', to_node_id: 'to-node-id' }
const commands: Record<string, { noun: string; flags: Record<string, string> }> = {
  '/v1/paths': { noun: 'path', flags: { ...flows, ...ways, compare: 'compare' } },
  '/v1/changes': { noun: 'change', flags: { ...flows, window: 'window', moved: 'moved' } },
  '/v1/segments': { noun: 'segment', flags: { ...flows, order: 'order', baseline: 'baseline', compare: 'compare' } },
  '/v1/grid': { noun: 'grid', flags: { ...flows, compare: 'compare' } },
  '/v1/packets': { noun: 'packet', flags: { ...flows, ...ways, flow_id: 'flow-id', sequence: 'sequence', min_delay: 'min-delay', incomplete: 'incomplete', lost: 'lost' } },
  '/v1/events': { noun: 'events', flags: { event: 'event', node: 'node' } },
  '/v1/loss': { noun: 'loss', flags: { flow: 'flow', where: 'where', compare: 'compare' } },
}

/** A word of a shell command. */
export const quoted = (text: string): string => (/^[\w@%+=:,./[\]-]+$/.test(text) && !/[[\]]/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`)

/** `waymark …` for a question; null: no command asks it. */
export function command(q: Question, collector: string): string | null {
  const known = commands[q.path]
  if (!known) return null
  const given = Object.entries(q.parameters).filter(([, value]) => value !== null && value !== undefined && value !== '' && value !== false)
  const words = ['waymark', known.noun, 'history', '--collector', quoted(collector)]
  for (const [key, value] of given) {
    const flag = key === 'from' ? 'since' : ['since', 'until', 'limit'].includes(key) ? key : known.flags[key]
    if (flag) words.push(`--${flag}`, ...(value === true ? [] : [quoted(String(value))]))
  }
  return words.join(' ')
}

export const curl = (q: Question, collector: string): string => `curl -s ${quoted(collector + address(q))}`
