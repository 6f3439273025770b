// SPDX-License-Identifier: Apache-2.0

// One path, node by node: how long each held packets, and how long they took from the node before.
import { count, difference, duration, interfaceName, nodeName } from '../format'
import { Negatives } from '../parts/delay'
import type { Delays, Hop } from '../types'
import { notably, type Both } from './merge'

const worst = (hops: Hop[], of: (h: Hop) => Delays | undefined): number => {
  const list = hops.map((h) => of(h)?.p99_ns ?? -1), [first, second] = [...list].sort((a, b) => b - a)
  return first !== undefined && second !== undefined && second >= 0 && first > notably * second ? list.indexOf(first) : -1
}

function Values({ of, before, slow, compared }: { of?: Delays; before?: Delays; slow: boolean; compared: boolean }) {
  return (
    <>
      <td class="number">{duration(of?.p50_ns)}</td>
      <td class="number">{duration(of?.p95_ns)}</td>
      <td class={`number${slow ? ' slow' : ''}`}>{duration(of?.p99_ns)}{slow && <span class="tag">slowest</span>}</td>
      {compared && <td class="number soft">{before ? `${difference(of?.p99_ns, before.p99_ns)} ` : ''}<span class="was">{duration(before?.p99_ns)}</span></td>}
    </>
  )
}

export function Hops({ of, compared }: { of: Both; compared: boolean }) {
  const path = of.now ?? of.any
  const clocks = path.hops.some((h) => h.since_negative)
  const since = worst(path.hops, (h) => h.since), held = worst(path.hops, (h) => h.held)
  return (
    <div class="table" tabIndex={0} role="region" aria-label="The path, node by node">
      <table class="hops">
        <thead>
          <tr><th rowSpan={2} scope="col">Node</th><th rowSpan={2} scope="col">In</th><th rowSpan={2} scope="col">Out</th>
            <th colSpan={compared ? 4 : 3} scope="colgroup" class="group">From the node before</th>{clocks && <th rowSpan={2} scope="col" class="number">Clocks</th>}<th colSpan={compared ? 4 : 3} scope="colgroup" class="group">Held by the node</th></tr>
          <tr>{[0, 1].map((k) => ['p50', 'p95', 'p99', ...(compared ? ['p99 before'] : [])].map((t) => <th key={`${k}${t}`} scope="col" class="number">{t}</th>))}</tr>
        </thead>
        <tbody>
          {path.hops.map((h, i) => {
            const b = of.now ? of.before?.hops[i] : undefined
            return (
              <tr key={i}>
                <th scope="row" title={[h.exporter, h.node_id === undefined ? '' : `node_id ${h.node_id}`, h.role].filter(Boolean).join(', ')}>{nodeName(h)}</th>
                <td>{interfaceName(h.ingress)}</td>
                <td>{interfaceName(h.egress)}</td>
                <Values of={h.since} before={b?.since} slow={i === since} compared={compared} />
                {clocks && <td class="number"><Negatives of={h.since_negative} all={(h.since?.count ?? 0) + (h.since_negative ?? 0)} /></td>}
                <Values of={h.held} before={b?.held} slow={i === held} compared={compared} />
              </tr>
            )
          })}
        </tbody>
      </table>
      {!path.complete && <p class="note">Not every node reported these {count(path.packets)} packets: {path.lost > 0 ? `${count(path.lost)} of them are known to be lost` : path.loss_known ? 'of none it is known that it was lost' : 'whether one was lost is not known'}.</p>}
    </div>
  )
}
