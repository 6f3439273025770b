// SPDX-License-Identifier: Apache-2.0

// Values that two clocks made.
import { duration } from '../format'

/** A difference of two clocks: a negative one is shown as such, with the reason. */
export function Delay({ ns }: { ns: number | null | undefined }) {
  if (ns === null || ns === undefined) return <span class="unknown">–</span>
  if (ns < 0) return <span class="negative" title="Negative: the clocks of the two nodes differ by more than the packet took. Nothing is corrected.">{duration(ns)}</span>
  return <>{duration(ns)}</>
}

/** How many differences were negative, and are in no percentile. */
export function Negatives({ of, all }: { of: number | undefined; all: number }) {
  if (!of) return null
  const text = of >= all ? 'all negative' : `${(100 * of / all).toFixed(of / all < 0.1 ? 1 : 0)}% negative`
  return <span class="negative" title={`${of} of ${all} packets: the clocks of the two nodes differ by more than they took. They are in no percentile.`}>{text}</span>
}
