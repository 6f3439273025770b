// SPDX-License-Identifier: Apache-2.0

// The waterfall of one packet.
import type { Ref } from 'preact'
import { duration, nodeName } from '../format'
import { fit } from '../parts/fit'
import { marks, type Waterfall } from './waterfall'

const line = 30, top = 22, names = 150
/** As .name in the styles. */
const nameFont = '600 12.5px system-ui, "Noto Sans", sans-serif'

interface Props { of: Waterfall; width: number; svg?: Ref<SVGSVGElement> }

export function WaterfallDrawing({ of, width, svg }: Props) {
  const wide = Math.max(width, 330), left = Math.min(names, wide * 0.32), room = wide - left - 76
  const x = (ns: number) => left + (ns / of.length) * room
  const height = top + of.steps.length * line + 6
  const axis = marks(of.length, wide < 600 ? 3 : 7)
  let before: number | null = null // the place of the last node with a time
  return (
    <svg ref={svg} class="waterfall" viewBox={`0 0 ${wide} ${height}`} width={wide} height={height} role="img" aria-label="The packet's times, node by node; the table below has the same">
      {axis.map((ns) => <g key={ns}><line class="mark" x1={x(ns)} x2={x(ns)} y1={top - 4} y2={height - 4} /><text class="axis" x={x(ns)} y={12}>{ns === 0 ? '0' : `+${duration(ns)}`}</text></g>)}
      {of.steps.map((s, i) => {
        const y = top + i * line + line / 2, name = nodeName(s.node), link = before
        if (s.at === null) {
          return (
            <g key={i} class="step unknown-step">
              <text class="name" x={6} y={y + 4}>{fit(name, left - 14, nameFont)}</text>
              <line class="none" x1={left} x2={left + room} y1={y} y2={y} />
              <text class="figure" x={left + 4} y={y - 5}>no time{s.node.held_ns !== undefined ? `; held ${duration(s.node.held_ns)}` : ''}</text>
            </g>
          )
        }
        const at = x(s.at), end = x(s.at + s.held), error = s.error === null ? 0 : (s.error / of.length) * room
        before = i
        const from = link === null ? null : of.steps[link]!
        const start = from === null ? null : x(from.at! + from.held)
        return (
          <g key={i} class={`step${s.back > 0 ? ' back' : s.overlap ? ' over' : ''}`}>
            <text class="name" x={6} y={y + 4}>{fit(name, left - 14, nameFont)}</text>
            {start !== null && link !== null && (
              <path class="link" d={`M${start} ${top + link * line + line / 2 + 6}L${start} ${y}L${at} ${y}`} />
            )}
            {error > 0 && <rect class="error" x={Math.max(left, at - error)} y={y - 9} width={Math.min(at + error, left + room) - Math.max(left, at - error)} height={18}><title>{`The clock of this node may be wrong by ${duration(s.error)} in both directions`}</title></rect>}
            <rect class="held" x={at} y={y - 6} width={Math.max(2, end - at)} height={12} rx={1.5}><title>{`${name}: at +${duration(s.at)}, held ${s.node.held_ns === undefined ? 'not known' : duration(s.held)}`}</title></rect>
            <text class="figure end" x={Math.max(end, at + 2) + 5} y={y + (s.overlap || s.back > 0 ? 14 : 4)}>{s.node.held_ns === undefined ? '' : duration(s.held)}</text>
            {s.between !== null && start !== null && Math.abs(at - start) > 54 && <text class={`figure between${s.between < 0 ? ' neg' : ''}`} x={(at + start) / 2} y={y - 5}>{duration(s.between)}</text>}
          </g>
        )
      })}
    </svg>
  )
}
