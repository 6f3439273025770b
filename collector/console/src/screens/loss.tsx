// SPDX-License-Identifier: Apache-2.0

import { useAnswer, type Question } from '../ask'
import { count, share, visible } from '../format'
import { saveShown } from '../export'
import { Actions } from '../parts/actions'
import { Shown } from '../parts/answer'
import { saveTable, Table, type Column } from '../parts/table'
import { usePart } from '../parts/rows'
import { useWidth } from '../parts/width'
import '../measures.css'
import { asked, zone } from '../question'
import { param, set } from '../route'
import type { Screen } from '../screen'
import { inSteps, stepsOf } from '../steps'
import { instantText, showClock, showTime } from '../time'
import type { Block, Blocks, EdgeLoss, FlowLoss, LossPoint, Losses } from '../types'

export const flowName = (f: { flow?: string; flow_id: number }): string => (f.flow ? visible(f.flow) : `flow ${f.flow_id}`)

const point = (node: string | undefined, number: number) => (node ? visible(node) : number === 0 ? 'ingress' : `point ${number}`)

export const wayName = (f: { scope: string; from: number; to: number; from_node?: string; to_node?: string }): string =>
  `${point(f.from_node, f.from)} → ${point(f.to_node, f.to)}`

const rowKey = (f: FlowLoss) => `${f.flow_id} ${f.scope} ${f.from} ${f.to}`

/** Flows in order of what they lost; of each, the whole way and then its segments along the way. */
export function inOrder(flows: FlowLoss[]): FlowLoss[] {
  const worst = new Map<number, number>()
  for (const f of flows) worst.set(f.flow_id, Math.max(worst.get(f.flow_id) ?? -1, f.ratio ?? -1))
  return [...flows].sort((a, b) => worst.get(b.flow_id)! - worst.get(a.flow_id)! || a.flow_id - b.flow_id || Number(a.scope === 'segment') - Number(b.scope === 'segment') || a.from - b.from)
}

type State = 'none' | 'uncertain' | 'zero' | 'lost'

/** What is known of a step: nothing, only that it is uncertain, that nothing was lost, or that something was. */
export function stateOf(p: LossPoint | null): State {
  if (!p || p.blocks === 0) return 'none'
  if (p.lost > 0) return 'lost'
  return p.blocks_uncertain >= p.blocks ? 'uncertain' : 'zero'
}

export const stepText = (p: LossPoint | null): string => {
  const doubt = p && p.blocks_uncertain > 0 ? `; ${count(p.blocks_uncertain)} of ${count(p.blocks)} blocks are uncertain` : ''
  switch (stateOf(p)) {
    case 'none': return 'no block: nothing is known'
    case 'uncertain': return 'all blocks are uncertain: how many packets were lost is not known'
    case 'zero': return `0 of ${count(p!.sent)} packets lost${doubt}`
    case 'lost': return `${count(p!.lost)} of ${count(p!.sent)} packets lost, ${share(p!.ratio)}${doubt}`
  }
}

const cellHeight = 22, rowHeight = 27
/** What the columns before the course take, about, in pixels; the course gets the rest. */
const before = 690
const cellWidthOf = (steps: number, room: number) => Math.max(9, Math.min(40, Math.floor((room - before) / Math.max(1, steps))))

/** Segment by step: the height of a bar is the share that was lost, by its root, so that little is seen. */
function Course({ steps, flow, greatest, cellWidth }: { steps: bigint[]; flow: FlowLoss; greatest: number; cellWidth: number }) {
  const points = inSteps(steps, flow.series)
  const states = points.map(stateOf), n = (s: State) => states.filter((one) => one === s).length
  return (
    <svg class="course" role="img" width={steps.length * cellWidth} height={cellHeight} viewBox={`0 0 ${steps.length * cellWidth} ${cellHeight}`}
      aria-label={`${wayName(flow)}: of ${steps.length} steps, ${n('lost')} with loss, ${n('zero')} without, ${n('uncertain')} uncertain, ${n('none')} without data`}>
      {points.map((p, i) => {
        const state = states[i]!, height = state === 'lost' ? Math.max(3, Math.sqrt((p!.ratio ?? 0) / greatest) * (cellHeight - 3)) : 2
        return (
          <g key={i}>
            <title>{`${showClock(instantText(steps[i]!), zone())}: ${stepText(p)}`}</title>
            <rect class={`ground ${state}`} x={i * cellWidth} y="0" width={cellWidth - 1} height={cellHeight} />
            {(state === 'lost' || state === 'zero') && <rect class={state} x={i * cellWidth} y={cellHeight - height} width={cellWidth - 1} height={height} />}
            {state === 'uncertain' && <text x={i * cellWidth + (cellWidth - 1) / 2} y="15">?</text>}
            {state !== 'uncertain' && p !== null && p.blocks_uncertain > 0 && <circle class="doubt" cx={i * cellWidth + (cellWidth - 1) / 2} cy="4" r="2" />}
          </g>
        )
      })}
    </svg>
  )
}

function Flows({ a }: { a: Losses }) {
  const steps = stepsOf(a, 240), list = inOrder(a.flows), opened = param('row')
  const greatest = list.reduce((most, f) => (f.series ?? []).reduce((m, p) => Math.max(m, p.ratio ?? 0), most), 1e-6)
  const { box, first, last, onScroll } = usePart(list.length, rowHeight, 560), cellWidth = cellWidthOf(steps.length, useWidth(box))
  return (
    <>
      <div class="courses" ref={box} onScroll={onScroll} tabIndex={0} role="region" aria-label="Loss of measured flows by segment and time">
        <table>
          <caption class="hidden">Measured flows: loss by segment and time</caption>
          <thead>
            <tr>
              <th scope="col">Flow</th><th scope="col">Segment</th><th scope="col" class="number">Sent</th><th scope="col" class="number">Lost</th><th scope="col" class="number">Share</th>
              <th scope="col" class="number" title="Of their loss nothing is known: they are in no sum">Uncertain</th>
              <th scope="col">{steps.length > 0 ? `${showTime(instantText(steps[0]!), zone())} – ${showClock(a.until, zone())}` : 'Course'}</th>
            </tr>
          </thead>
          <tbody>
            {first > 0 && <tr aria-hidden="true" class="space"><td colSpan={7} style={{ height: `${first * rowHeight}px` }} /></tr>}
            {list.slice(first, last).map((f, i, shown) => (
              <tr key={rowKey(f)} class={`${f.scope === 'whole' ? 'whole' : 'segment'}${rowKey(f) === opened ? ' open' : ''}`}>
                <th scope="row" title={flowName(f)}>{i > 0 && shown[i - 1]!.flow_id === f.flow_id ? '' : flowName(f)}</th>
                <td><button type="button" class="quiet" aria-pressed={rowKey(f) === opened} title="Show its blocks" onClick={() => set({ row: rowKey(f) === opened ? null : rowKey(f) })}>{f.scope === 'whole' ? `whole way, ${wayName(f)}` : wayName(f)}</button></td>
                <td class="number">{count(f.sent)}</td>
                <td class="number">{f.ratio === undefined ? <Unknown /> : f.lost > 0 ? <span class="lost">{count(f.lost)}</span> : '0'}</td>
                <td class="number">{f.ratio === undefined ? <Unknown /> : <span class={f.lost > 0 ? 'lost' : undefined}>{share(f.ratio)}</span>}</td>
                <td class="number">{f.blocks_uncertain > 0 ? <span class="unknown" title={`${count(f.blocks_uncertain)} of ${count(f.blocks)} blocks`}>? {share(f.blocks_uncertain / f.blocks)}</span> : '0'}</td>
                <td><Course steps={steps} flow={f} greatest={greatest} cellWidth={cellWidth} /></td>
              </tr>
            ))}
            {last < list.length && <tr aria-hidden="true" class="space"><td colSpan={7} style={{ height: `${(list.length - last) * rowHeight}px` }} /></tr>}
          </tbody>
        </table>
      </div>
      <p class="legend">
        <span><i class="bar lost" /> lost, the highest {share(greatest)}</span><span><i class="bar zero" /> measured: nothing lost</span>
        <span><i class="uncertain">?</i> uncertain: not known</span><span><i class="doubt" /> a part is uncertain</span><span><i class="empty" /> no data</span>
      </p>
    </>
  )
}

const Unknown = () => <span class="unknown" title="No block of which the loss is known">?</span>

const blockColumns: Column<Block>[] = [
  { key: 'start', title: 'Block', value: (b) => b.start, text: (b) => showTime(b.start, zone(), 3), width: 190 },
  { key: 'verdict', title: 'Verdict', value: (b) => b.verdict, width: 110, show: (b) => <span class={['measured', 'idle'].includes(b.verdict) ? undefined : 'unknown'}>{visible(b.verdict)}</span> },
  { key: 'sent', title: 'Sent', value: (b) => b.sent, text: (b) => (b.sent === undefined ? '?' : count(b.sent)), number: true, width: 90 },
  { key: 'received', title: 'Received', value: (b) => b.received, text: (b) => (b.received === undefined ? '?' : count(b.received)), number: true, width: 90 },
  {
    key: 'lost', title: 'Lost', value: (b) => b.lost, text: (b) => (b.lost === undefined ? '?' : count(b.lost)), number: true, width: 90, vital: true,
    show: (b) => (b.lost === undefined ? <span class="unknown">{b.lost_min === undefined ? '?' : `≥ ${count(b.lost_min)}`}</span> : b.lost > 0 ? <span class="lost">{count(b.lost)}</span> : '0'),
  },
  { key: 'reasons', title: 'Why it is uncertain', value: (b) => (b.reasons ?? []).join(', '), text: (b) => visible((b.reasons ?? []).join(', ').replaceAll('_', ' ')), width: 240, grows: true },
]

/** The single blocks of one row. */
function OneWay({ flow }: { flow: FlowLoss }) {
  const question: Question = { path: '/v1/loss/blocks', parameters: { ...asked([]), flow_id: flow.flow_id, limit: 5000 } }
  const answer = useAnswer<Blocks>(question)
  const mine = (b: Block) => b.scope === flow.scope && b.from === flow.from && b.to === flow.to
  return (
    <section>
      <Shown of={answer} empty={(a) => !a.blocks.some(mine)} nothing="No blocks" part>
        {(a) => {
          const list = a.blocks.filter(mine)
          return (
            <>
              <div class="part">
                <h2>{flowName(flow)}, {wayName(flow)}: {count(list.length)} blocks</h2>
                <Actions question={question} csv={() => saveTable('blocks', blockColumns, list)} />
              </div>
              <Table name="blocks" title="Blocks" columns={blockColumns} rows={list} id={(b) => b.start} sort="-start" height={320} />
            </>
          )
        }}
      </Shown>
    </section>
  )
}

const edgeColumns: Column<EdgeLoss>[] = [
  { key: 'node', title: 'Measured by', value: (e) => (e.node ? visible(e.node) : ''), text: (e) => (e.node ? visible(e.node) : '–'), width: 120 },
  { key: 'source', title: 'Source', value: (e) => e.source, width: 170, grows: true },
  { key: 'destination', title: 'Destination', value: (e) => e.destination, width: 170, grows: true },
  { key: 'packets', title: 'Came', value: (e) => e.packets, text: (e) => count(e.packets), number: true, width: 90 },
  {
    key: 'lost', title: 'Lost', value: (e) => e.lost, text: (e) => (e.lost === undefined ? '?' : count(e.lost)), number: true, width: 80, vital: true,
    show: (e) => (e.lost === undefined ? <Unknown /> : e.lost > 0 ? <span class="lost">{count(e.lost)}</span> : '0'),
  },
  { key: 'share', title: 'Share', value: (e) => edgeShare(e), text: (e) => share(edgeShare(e)), number: true, width: 80, vital: true },
  { key: 'unknown', title: 'Uncertain', about: 'Records that do not say how many packets were lost', value: (e) => e.unknown, text: (e) => (e.unknown ? `? ${count(e.unknown)}` : '0'), number: true, width: 90 },
  { key: 'duplicates', title: 'Duplicates', value: (e) => e.duplicates, text: (e) => count(e.duplicates), number: true, width: 106 },
  { key: 'reordered', title: 'Reordered', value: (e) => e.reordered, text: (e) => count(e.reordered), number: true, width: 106 },
]

const edgeShare = (e: EdgeLoss) => (e.lost !== undefined && e.lost >= 0 && e.packets + e.lost > 0 ? e.lost / (e.packets + e.lost) : null)

/** The answer in a sentence. */
export function sentence(a: Losses): string {
  const segments = a.flows.filter((f) => f.scope === 'segment' && f.lost > 0).sort((x, y) => y.ratio! - x.ratio!)
  const worst = segments[0] ?? a.flows.find((f) => f.lost > 0)
  if (worst) return `${flowName(worst)} loses ${share(worst.ratio)} on ${wayName(worst)}`
  const edge = a.edge_flows.filter((e) => (edgeShare(e) ?? 0) > 0).sort((x, y) => edgeShare(y)! - edgeShare(x)!)[0]
  if (edge) return `${edge.source} → ${edge.destination} loses ${share(edgeShare(edge))} from edge to edge`
  const known = a.flows.some((f) => f.ratio !== undefined) || a.edge_flows.some((e) => e.lost !== undefined)
  return known ? 'No measured flow lost a packet in what is known' : 'Of no flow is the loss known'
}

function View() {
  const question: Question = { path: '/v1/loss', parameters: { ...asked([]), flow: param('flow'), buckets: 60, limit: 1000 } }
  const answer = useAnswer<Losses>(question)
  return (
    <Shown of={answer} empty={(a) => a.flows.length === 0 && a.edge_flows.length === 0} nothing="No flow is measured">
      {(a) => {
        const row = a.flows.find((f) => rowKey(f) === param('row'))
        const columns: Column<FlowLoss>[] = [
          { key: 'flow', title: 'Flow', value: flowName, width: 100 }, { key: 'scope', title: 'Scope', value: (f) => f.scope, width: 100 }, { key: 'way', title: 'Segment', value: wayName, width: 100 },
          { key: 'blocks', title: 'Blocks', value: (f) => f.blocks, number: true, width: 100 }, { key: 'uncertain', title: 'Uncertain', value: (f) => f.blocks_uncertain, number: true, width: 100 },
          { key: 'sent', title: 'Sent', value: (f) => f.sent, number: true, width: 100 }, { key: 'lost', title: 'Lost', value: (f) => (f.ratio === undefined ? null : f.lost), number: true, width: 100 },
        ]
        return (
          <>
            <div class="title">
              <h1>{sentence(a)}</h1>
              <Actions question={question} csv={() => saveTable('loss', columns, inOrder(a.flows))} png={() => saveShown('loss', a.flows.length > 0 ? '.courses' : '.table')} />
            </div>
            {a.flows.length > 0 && <Flows a={a} />}
            {row && <OneWay flow={row} />}
            {a.edge_flows.length > 0 && (
              <section>
                <div class="part"><h2>From edge to edge</h2><Actions question={null} csv={() => saveTable('edge-flows', edgeColumns, a.edge_flows)} /></div>
                <Table name="edges" title="Flows from edge to edge" columns={edgeColumns} rows={a.edge_flows} id={(e) => `${e.node} ${e.source} ${e.destination} ${e.namespace}`} sort="-lost" height={320} />
              </section>
            )}
          </>
        )
      }}
    </Shown>
  )
}

export default {
  id: 'loss', title: 'Loss', order: 5, about: 'The loss of measured flows: of SRv6 flows by segment and time, and of flows from edge to edge. What is uncertain is in no sum.', filters: [], view: View,
} satisfies Screen
