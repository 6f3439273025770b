// SPDX-License-Identifier: Apache-2.0

// How many packets were lost, where that can be known: a postcard that is missing tells it, a trace is lost with its packet.
import { count } from '../format'

interface Known { lost: number; loss_known: boolean }

export const lossUnknown = '–: what was lost is not known. Of packets that carry their traces, only those that arrive are reported; Direct Exports also tell of those that do not.'

/** A number only if it is known; undefined is no zero. */
export const lostOf = (of: Known): number | undefined => (of.loss_known || of.lost > 0 ? of.lost : undefined)

/** soft: nothing could be lost there. */
export function Losses({ of, soft, title }: { of: Known; soft?: boolean; title?: string }) {
  const lost = lostOf(of)
  if (lost === undefined) return <span class="unknown" title={lossUnknown}>–</span>
  return lost > 0 ? <span class="lost" title={title}>{count(lost)}</span> : soft ? <span class="soft">0</span> : <>0</>
}
