// SPDX-License-Identifier: Apache-2.0

// Times: in the API's texts (RFC 3339 with nanoseconds), of which no digit is lost.

const units: Record<string, number> = { ns: 1e-6, us: 1e-3, µs: 1e-3, ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Milliseconds of a span such as 90s, 1h30m or 7d; null: it is none. */
export function parseSpan(text: string): number | null {
  if (!/^(\d+(\.\d+)?(ns|us|µs|ms|s|m|h|d))+$/.test(text)) return null
  let whole = 0
  for (const [, value, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h|d)/g)) whole += Number(value) * units[unit!]!
  return whole > 0 ? whole : null
}

/** A span as the API takes it. */
export function spanText(ms: number): string {
  for (const [unit, size] of [['d', 86_400_000], ['h', 3_600_000], ['m', 60_000], ['s', 1000]] as const) {
    if (ms >= size && ms % size === 0) return `${ms / size}${unit}`
  }
  return `${Math.round(ms)}ms`
}

/** Nanoseconds since 1970 of a time in RFC 3339; null: it is none. */
export function nanoseconds(text: string): bigint | null {
  const match = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?(Z|[+-]\d{2}:\d{2})$/.exec(text)
  if (!match) return null
  const ms = Date.parse(match[1]! + match[3]!)
  return Number.isNaN(ms) ? null : BigInt(ms) * 1_000_000n + BigInt((match[2] ?? '').padEnd(9, '0'))
}

/** The time in RFC 3339. */
export function instantText(ns: bigint): string {
  const rest = ((ns % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n
  const text = new Date(Number((ns - rest) / 1_000_000n)).toISOString().slice(0, 19)
  const digits = rest.toString().padStart(9, '0').replace(/0+$/, '')
  return `${text}${digits ? `.${digits}` : ''}Z`
}

export type Zone = 'utc' | 'local'

const two = (n: number) => String(n).padStart(2, '0')

/** A time for people: 2026-11-21 11:58:30, with so many digits of the second. */
export function showTime(text: string, zone: Zone, digits: 0 | 3 | 6 | 9 = 0): string {
  const ns = nanoseconds(text)
  if (ns === null) return text
  const rest = ((ns % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n
  const d = new Date(Number((ns - rest) / 1_000_000n))
  const [date, clock] = zone === 'utc'
    ? [d.toISOString().slice(0, 10), d.toISOString().slice(11, 19)]
    : [`${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`, `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`]
  return `${date} ${clock}${digits ? `.${rest.toString().padStart(9, '0').slice(0, digits)}` : ''}`
}

/** Only the time of day. */
export const showClock = (text: string, zone: Zone, digits: 0 | 3 | 6 | 9 = 0): string => showTime(text, zone, digits).slice(11)

/** A range in few words: the second date only if it is another. */
export function showRange(from: string, until: string, zone: Zone): string {
  const a = showTime(from, zone), b = showTime(until, zone)
  return a.slice(0, 10) === b.slice(0, 10) ? `${a} – ${b.slice(11)}` : `${a} – ${b}`
}

export interface Range { since?: string; from?: string; until?: string }

export const usualSpan = '1h'

/** The range that settings of the address say, as parameters of the API. */
export function rangeOf(params: URLSearchParams): Range {
  const from = params.get('from'), until = params.get('until')
  if (from) return until ? { from, until } : { from }
  const since = params.get('since') ?? usualSpan
  return until ? { since, until } : { since }
}

/** How far back the period lies that is compared with, as the API takes it; null: nothing is compared. */
export function comparedSpan(params: URLSearchParams, now: () => number = Date.now): string | null {
  const compare = params.get('compare')
  if (compare !== 'previous') return compare && parseSpan(compare) !== null ? compare : null
  const from = nanoseconds(params.get('from') ?? ''), until = nanoseconds(params.get('until') ?? '')
  if (from === null) return params.get('since') ?? usualSpan
  const span = until === null ? now() - Number(from / 1_000_000n) : Number(until - from) / 1e6
  return span >= 1 ? spanText(span) : null
}
