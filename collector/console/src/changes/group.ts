// SPDX-License-Identifier: Apache-2.0

// Changes that belong together: pairs that moved at the same time from the same paths to the same.
import { nodeName } from '../format'
import { nanoseconds } from '../time'
import type { Change, Share } from '../types'

/** The path that lost the most of its share to the other side: which is where packets moved away from, or to. */
export function moved(list: Share[], other: Share[]): Share | undefined {
  const there = new Map(other.map((s) => [s.path, s.share]))
  const gone = (s: Share) => s.share - (there.get(s.path) ?? 0)
  return list.reduce<Share | undefined>((best, s) => (!best || gone(s) > gone(best) ? s : best), undefined)
}

export const words = (s: Share | undefined): string => (s ? s.nodes.map((n) => nodeName(n)).join(' → ') : '–')

/** The mean delay of a side, of the packets whose delay is known. */
export function meanDelay(list: Share[]): number | undefined {
  let packets = 0, whole = 0
  for (const s of list) {
    if (s.delay_mean_ns === undefined) continue
    packets += s.packets
    whole += s.delay_mean_ns * s.packets
  }
  return packets > 0 ? whole / packets : undefined
}

/** A row: the change with what is compared. */
export interface Row { id: string; change: Change; was: Share | undefined; became: Share | undefined; before: number | undefined; after: number | undefined }

export const rowOf = (c: Change): Row => ({
  id: `${c.time} ${c.source ?? ''} ${c.destination ?? ''} ${c.namespace}`, change: c, was: moved(c.was, c.became), became: moved(c.became, c.was), before: meanDelay(c.was), after: meanDelay(c.became),
})

export interface Group { key: string; time: string; rows: Row[]; was: Share | undefined; became: Share | undefined; before: number | undefined; after: number | undefined }

const middle = (list: (number | undefined)[]): number | undefined => {
  const known = list.filter((n): n is number => n !== undefined).sort((a, b) => a - b)
  return known.length > 0 ? known[Math.floor((known.length - 1) / 2)] : undefined
}

/** The groups, those with most pairs first. */
export function groups(rows: Row[]): Group[] {
  const found = new Map<string, Row[]>()
  for (const row of rows) {
    const key = `${row.change.time} ${row.was?.path ?? ''} ${row.became?.path ?? ''}`
    found.set(key, [...(found.get(key) ?? []), row])
  }
  return [...found].map(([key, list]) => ({
    key, time: list[0]!.change.time, rows: list, was: list[0]!.was, became: list[0]!.became, before: middle(list.map((r) => r.before)), after: middle(list.map((r) => r.after)),
  })).sort((a, b) => b.rows.length - a.rows.length || (a.time < b.time ? 1 : -1))
}

/** Nodes of a path that the other sides do not have. */
export function others(path: Share, than: Share[]): Set<string> {
  const known = new Set(than.flatMap((s) => s.nodes.map((n) => nodeName(n))))
  return new Set(path.nodes.map((n) => nodeName(n)).filter((name) => !known.has(name)))
}

/** Columns of the time: how many pairs moved in each of so many steps from one end to the other, also none. */
export function histogram(rows: Row[], from: string, until: string, steps: number): { begin: number; counts: number[]; step: number } {
  const a = Number(nanoseconds(from) ?? 0n) / 1e9, b = Number(nanoseconds(until) ?? 0n) / 1e9
  const step = Math.max((b - a) / steps, 1e-9), counts = new Array<number>(steps).fill(0)
  for (const row of rows) {
    const at = Math.floor((Number(nanoseconds(row.change.time) ?? 0n) / 1e9 - a) / step)
    const i = Math.min(Math.max(at, 0), steps - 1) // a window may begin before the time that is asked about
    counts[i]!++
  }
  return { begin: a, counts, step }
}
