// SPDX-License-Identifier: Apache-2.0

// One packet: the waterfall, and each node's report as it came.
import { useMemo, useRef } from 'preact/hooks'
import type { Question } from '../ask'
import { saveCSV, savePNG } from '../export'
import { bytes, duration, endpoint, interfaceName, nodeName, protocol, visible } from '../format'
import { Actions } from '../parts/actions'
import { Delay } from '../parts/delay'
import { useWidth } from '../parts/width'
import { zone } from '../question'
import { screenHref } from '../route'
import { showTime } from '../time'
import type { Packet } from '../types'
import { WaterfallDrawing } from './drawing'
import { fate, waterfall, type Waterfall } from './waterfall'

const sources: Record<string, string> = { postcards: 'joined from the postcards of its nodes', trace: 'the packet carried its path', kernel: 'the packet carried its path, by the kernel’s own IOAM' }

/** What the times of a packet say about the clocks. */
function Clocks({ of }: { of: Waterfall }) {
  const unknown = of.steps.filter((s) => s.at !== null && s.error === null).length
  const backs = of.steps.filter((s) => s.back > 0), overlaps = of.steps.filter((s) => s.overlap)
  return (
    <p class="clocks">
      {backs.map((s, i) => (
        <span key={i}><span class="negative">{nodeName(s.node)}</span> reported an earlier time than the node before: the clocks differ by at least {duration(s.back)}{s.within ? ', which their errors allow' : ''}. </span>
      ))}
      {overlaps.map((s, i) => (
        <span key={i}><span class="negative">{nodeName(s.node)}</span> reported a time before the node before was done with the packet, by {duration(-(s.between ?? 0))}: the clocks differ, or the nodes take their times at different points. </span>
      ))}
      Times are raw, each by its node’s own clock; nothing is corrected.
      {' '}{unknown === 0 ? 'The errors of all clocks are known; they are drawn around each time.' : unknown === of.steps.length ? 'How wrong these clocks are is not known.' : `Of ${unknown} clocks the error is not known.`}
    </p>
  )
}

export function Details({ of, question }: { of: Packet; question: Question }) {
  const box = useRef<HTMLElement>(null), width = useWidth(box), svg = useRef<SVGSVGElement>(null)
  const w = useMemo(() => waterfall(of), [of])
  const titles = ['node', 'exporter', 'node_id', 'role', 'in', 'out', 'hop_limit', 'timestamp', 'clock_error_ns', 'since_previous_ns', 'held_ns', 'queue_depth']
  const rows = of.nodes.map((n) => [n.node, n.exporter, n.node_id, n.role, n.ingress?.name ?? n.ingress?.index, n.egress?.name ?? n.egress?.index, n.hop_limit, n.timestamp, n.clock_error_ns, n.since_previous_ns, n.held_ns, n.queue_depth])
  const pair = { source: of.source_address, destination: of.destination_address }
  return (
    <section class="details" aria-label="The chosen packet" ref={box}>
      <div class="title">
        <h2>{endpoint(of.source_address, of.source_port)} → {endpoint(of.destination_address, of.destination_port)} <small>{protocol(of.next_header)}, {bytes(of.length)}</small></h2>
        <p class="sub">
          {of.verdict === 'lost' ? <b class="lost">{fate(of)}</b> : fate(of)} {of.delay_ns !== undefined && <>From end to end <b><Delay ns={of.delay_ns} /></b>. </>}
          Flow {of.flow_id ?? '–'}, number {of.sequence ?? '–'}, namespace {of.namespace}; {sources[of.source] ?? visible(of.source)}. <a href={screenHref('paths', pair)}>Paths of this pair</a>
        </p>
        <Actions question={question} csv={() => saveCSV('packet', titles, rows)} png={() => (svg.current ? savePNG('packet', svg.current) : undefined)} />
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Waterfall"><WaterfallDrawing of={w} width={width - 30} svg={svg} /></div>
      <Clocks of={w} />
      <div class="table" tabIndex={0} role="region" aria-label="The nodes' reports">
        <table class="hops">
          <thead><tr><th scope="col">Node</th><th scope="col">In</th><th scope="col">Out</th><th scope="col">Its time{zone() === 'utc' ? ', UTC' : ''}</th><th scope="col" class="number">Clock ±</th><th scope="col" class="number">Since the one before</th><th scope="col" class="number">Held</th><th scope="col" class="number">Queue</th><th scope="col" class="number">Hop limit</th></tr></thead>
          <tbody>
            {w.steps.map(({ node: n }, i) => (
              <tr key={i}>
                <th scope="row" title={[n.exporter, n.node_id === undefined ? '' : `node_id ${n.node_id}`, n.role].filter(Boolean).join(', ')}>{nodeName(n)}</th>
                <td>{interfaceName(n.ingress)}</td><td>{interfaceName(n.egress)}</td>
                <td class="mono">{n.timestamp ? showTime(n.timestamp, zone(), 9) : <span class="unknown">none</span>}</td>
                <td class="number">{n.clock_error_ns === undefined ? <span class="unknown" title="No record of loss or delay near that time says it">not known</span> : <span title={n.clock_error_at && `as of ${showTime(n.clock_error_at, zone())}`}>{duration(n.clock_error_ns)}</span>}</td>
                <td class="number">{i === 0 ? '' : <Delay ns={n.since_previous_ns} />}</td>
                <td class="number">{duration(n.held_ns)}</td><td class="number">{n.queue_depth ?? '–'}</td><td class="number">{n.hop_limit ?? '–'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}
