// SPDX-License-Identifier: Apache-2.0

// Series of answers: a point has the begin of its step, and a step of which nothing is known has no point.
import { nanoseconds } from './time'

export interface Stepped { from?: string; until?: string; step_ns?: number }

/** The begins of all steps of an answer, in nanoseconds; none without series. */
export function stepsOf(a: Stepped, most = 2000): bigint[] {
  const from = a.from ? nanoseconds(a.from) : null, until = a.until ? nanoseconds(a.until) : null
  if (from === null || until === null || !a.step_ns || a.step_ns <= 0) return []
  const step = BigInt(Math.round(a.step_ns)), list: bigint[] = []
  for (let at = (from / step) * step; at < until && list.length < most; at += step) list.push(at)
  return list
}

/** The points of a series, one for each step; null where there is none. */
export function inSteps<P extends { time: string }>(steps: bigint[], series: P[] | undefined): (P | null)[] {
  const at = new Map((series ?? []).map((p) => [nanoseconds(p.time), p]))
  return steps.map((s) => at.get(s) ?? null)
}
