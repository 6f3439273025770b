// SPDX-License-Identifier: Apache-2.0

// The commands that ask the same as a screen.
import { address, type Question } from './ask'

const nouns: Record<string, string> = {
  '/v1/paths': 'path', '/v1/changes': 'change', '/v1/segments': 'segment', '/v1/grid': 'grid', '/v1/packets': 'packet', '/v1/loss': 'loss history',
}

/** A word of a shell command. */
export const quoted = (text: string): string => (/^[\w@%+=:,./[\]-]+$/.test(text) && !/[[\]]/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`)

/** `waymark …` for a question; null: there is none. */
export function command(q: Question, collector: string): string | null {
  const noun = nouns[q.path]
  if (!noun) return null
  const words = ['waymark', noun, '--collector', quoted(collector)]
  for (const [key, value] of Object.entries(q.parameters)) {
    if (value === null || value === undefined || value === '' || value === false) continue
    words.push(`--${key.replaceAll('_', '-')}`)
    if (value !== true) words.push(quoted(String(value)))
  }
  return words.join(' ')
}

export const curl = (q: Question, collector: string): string => `curl -s ${quoted(collector + address(q))}`
