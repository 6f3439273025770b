// SPDX-License-Identifier: Apache-2.0

// One packet as a waterfall: where each node's time and how long it held the packet stand on one axis. Times are as
// the nodes reported them, so a step may go back: then two clocks differ.
import { visible } from '../format'
import { nanoseconds } from '../time'
import type { Packet, PacketNode } from '../types'

export interface Step {
  node: PacketNode
  /** Nanoseconds after the earliest time of the packet; null: the node reported none. */
  at: number | null
  held: number
  /** Since the node before that reported a time, without what that one held: the link and what waits for it. */
  between: number | null
  /** How far the step goes back in time, else 0. */
  back: number
  /** It came, by these clocks, before the node before was done with it. */
  overlap: boolean
  /** It goes back by less than the clocks may be wrong. */
  within: boolean
  /** How wrong the clock may be, in both directions; null: not known. */
  error: number | null
}

export interface Waterfall { steps: Step[]; begin: bigint | null; length: number; back: number }

export function waterfall(p: Packet): Waterfall {
  const times = p.nodes.map((n) => (n.timestamp ? nanoseconds(n.timestamp) : null))
  const known = times.filter((t): t is bigint => t !== null)
  const begin = known.length > 0 ? known.reduce((a, b) => (b < a ? b : a)) : null
  const steps: Step[] = []
  let before: Step | null = null
  p.nodes.forEach((node, i) => {
    const t = times[i] ?? null
    const at = t === null || begin === null ? null : Number(t - begin)
    const step: Step = { node, at, held: node.held_ns ?? 0, between: null, back: 0, overlap: false, within: false, error: node.clock_error_ns ?? null }
    if (at !== null && before !== null && before.at !== null) {
      step.between = at - before.at - before.held
      step.back = Math.max(0, before.at - at)
      step.overlap = step.back === 0 && step.between < 0
      step.within = step.back > 0 && step.error !== null && before.error !== null && step.back <= step.error + before.error
    }
    steps.push(step)
    if (at !== null) before = step
  })
  const length = Math.max(1, ...steps.map((s) => (s.at === null ? 0 : s.at + s.held)))
  return { steps, begin, length, back: steps.filter((s) => s.back > 0).length }
}

/** Marks for an axis of so many nanoseconds: round numbers, at most so many. */
export function marks(length: number, most: number): number[] {
  const raw = length / most, power = 10 ** Math.floor(Math.log10(raw))
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw) ?? raw
  const list: number[] = []
  for (let n = 0; n <= length * 1.0001; n += step) list.push(Math.round(n))
  return list
}

/** The collector's reasons (internal/record/names.go). */
const sentences: Record<string, string> = {
  complete: 'Every node of the path reported it.',
  evicted: 'Its path was closed early, because too many postcards were waiting.',
  sequence_reused: 'Another packet with the same number came too early.',
  ended: 'The collector ended before the wait for its postcards was over.',
  not_seen_further: 'No decapsulating node reported it.',
  no_encapsulating: 'No encapsulating node reported it.',
  hop_missing: 'A node between two that reported it did not.',
  hop_limits_uneven: 'Hop limits do not decrease from the first node to the last.',
}

/** What became of it, in words. */
export function fate(p: Packet): string {
  const reason = sentences[p.reason] ?? `Not complete: ${visible(p.reason).replaceAll('_', ' ')}.`
  return p.verdict === 'lost' ? `It was lost. ${reason}` : p.verdict === 'arrived' ? reason : `${reason} What became of it is not known.`
}
