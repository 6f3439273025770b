// SPDX-License-Identifier: Apache-2.0

import { useAnswer, type Question } from '../ask'
import { count, duration, nodeName, share } from '../format'
import { saveShown } from '../export'
import { Actions } from '../parts/actions'
import { Shown } from '../parts/answer'
import { Choice } from '../parts/choice'
import { Negatives } from '../parts/delay'
import { lostOf, Losses, lossUnknown } from '../parts/losses'
import { Over, type Line } from '../parts/over'
import { saveTable, Table, type Column } from '../parts/table'
import '../measures.css'
import { nodeKey, route } from '../paths/merge'
import { asked } from '../question'
import { param, screenHref, set } from '../route'
import { flowFilters, type Screen } from '../screen'
import { stepsOf } from '../steps'
import type { Delays, Grid, Node, Pair, Paths } from '../types'

const percentiles = { p99_ns: '99th percentile', p95_ns: '95th percentile', p50_ns: 'median', mean_ns: 'mean', max_ns: 'greatest' }
type Percentile = keyof typeof percentiles & keyof Delays

/** How many nodes a side of the matrix has; the table below has all pairs. */
export const most = 40

const rowOf = (p: Pair): string => `${key(p.from)} ${p.to ? key(p.to) : ''} ${p.loss_known}`

const key: (n: Node) => string = nodeKey

/** known: packets of which it can be known that they were lost. */
interface Place { key: string; name: string; packets: number; known: number }

/** The matrix: the busiest nodes at which packets begin, and at which they end. */
export function matrix(pairs: Pair[]) {
  const rows = new Map<string, Place>(), ends = new Map<string, Place>(), cells = new Map<string, Pair>(), unseen = new Map<string, Pair>()
  const add = (to: Map<string, Place>, n: Node, p: Pair) => {
    const place = to.get(key(n)) ?? { key: key(n), name: nodeName(n), packets: 0, known: 0 }
    place.packets += p.packets
    if (p.loss_known) place.known += p.packets
    to.set(place.key, place)
  }
  // Two pairs can have the same ends, of postcards and of traces: the busier one is in the cell.
  const put = (to: Map<string, Pair>, at: string, p: Pair) => { if (p.packets > (to.get(at)?.packets ?? 0)) to.set(at, p) }
  for (const p of pairs) {
    add(rows, p.from, p)
    if (p.to) {
      add(ends, p.to, p)
      put(cells, `${key(p.from)} ${key(p.to)}`, p)
    } else if (p.loss_known || p.lost > 0) put(unseen, key(p.from), p)
  }
  const busiest = (of: Map<string, Place>) => [...of.values()].sort((a, b) => b.packets - a.packets).slice(0, most).sort((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }))
  return { from: busiest(rows), to: busiest(ends), cells, unseen, hidden: Math.max(0, rows.size - most) + Math.max(0, ends.size - most) }
}

/** Of 0 to 1: where a value lies between the least and the greatest, by powers. */
export function depth(value: number, least: number, greatest: number): number {
  if (value <= 0 || greatest <= least || least <= 0) return value >= greatest && greatest > 0 ? 1 : 0
  return Math.min(1, Math.max(0, Math.log(value / least) / Math.log(greatest / least)))
}

const shade = (of: 'slow' | 'bad', d: number) => ({ background: `color-mix(in srgb, var(--${of}) ${Math.round(4 + d * 34)}%, var(--raised))` })

function Matrix({ pairs, by }: { pairs: Pair[]; by: Percentile }) {
  const m = matrix(pairs)
  const values = [...m.cells.values()].map((p) => p.delay?.[by] ?? 0).filter((v) => v > 0)
  const least = Math.min(...values), greatest = Math.max(...values)
  return (
    <>
      <div class="matrix" tabIndex={0} role="region" aria-label="Delay from node to node">
        <table>
          <caption class="hidden">Delay from the node in the row to the node in the column, {percentiles[by]}; – is no data</caption>
          <thead>
            <tr>
              <td><span class="soft">from ↓ to →</span></td>
              {m.to.map((t) => <th key={t.key} scope="col">{t.name}</th>)}
              <th scope="col" class="apart">lost on the way</th>
            </tr>
          </thead>
          <tbody>
            {m.from.map((f) => (
              <tr key={f.key}>
                <th scope="row">{f.name}</th>
                {m.to.map((t) => <Cell key={t.key} pair={m.cells.get(`${f.key} ${t.key}`)} by={by} from={f.name} to={t.name} least={least} greatest={greatest} />)}
                <Lost pair={m.unseen.get(f.key)} of={f} />
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="legend">
        <span><i class="empty" /> no data: nothing is known</span>
        <span><i style={shade('slow', 0)} /> {values.length ? duration(least) : 'fast'}</span><span><i style={shade('slow', 1)} /> {values.length ? duration(greatest) : 'slow'}</span>
        {m.from.some((f) => f.known === 0) && <span>{lossUnknown}</span>}
        {m.hidden > 0 && <span>The matrix has the {most} busiest nodes of each side; the table has all.</span>}
      </p>
    </>
  )
}

function Cell({ pair, by, from, to, least, greatest }: { pair?: Pair; by: Percentile; from: string; to: string; least: number; greatest: number }) {
  if (!pair) return <td class="empty" title={`No packets from ${from} to ${to}: nothing is known.`}>–</td>
  const value = pair.delay?.[by]
  const title = `${from} → ${to}: ${count(pair.packets)} packets on ${count(pair.paths)} paths${pair.delay ? `, median ${duration(pair.delay.p50_ns)}, p95 ${duration(pair.delay.p95_ns)}, p99 ${duration(pair.delay.p99_ns)}` : ', no delay is known'}`
  if (value === undefined) return <td class="empty" title={title}>{pair.delay_negative ? <Negatives of={pair.delay_negative} all={pair.packets} /> : '?'}</td>
  const id = idsOf(pair), shown = duration(value)
  return (
    <td style={shade('slow', depth(value, least, greatest))} title={title}>
      {id ? <button type="button" aria-pressed={param('pair') === id} aria-label={`${from} to ${to}: ${shown}, over the time`} onClick={() => set({ pair: param('pair') === id ? null : id }, true)}>{shown}</button> : shown}
    </td>
  )
}

function Lost({ pair, of }: { pair?: Pair; of: Place }) {
  if (of.known === 0) return <td class="apart empty" title={lossUnknown}>–</td>
  if (!pair || pair.lost === 0) return <td class="apart" title={`${count(of.known)} packets; none is known to be lost`}>0</td>
  const part = pair.lost / of.known
  return <td class="apart lost" style={shade('bad', Math.min(1, part * 20))} title={`${count(pair.lost)} of ${count(of.known)} packets are known to be lost`}>{share(part)}</td>
}

/** The numbers of both nodes, by which packets are selected; '' if they have none. */
const idsOf = (p: Pair): string => (p.from.node_id !== undefined && p.to?.node_id !== undefined ? `${p.from.node_id} ${p.to.node_id}` : '')

/** One pair over the time: each of its paths. */
function Opened({ of }: { of: Pair }) {
  const ends = { from_node_id: String(of.from.node_id), to_node_id: String(of.to?.node_id) }, way = { ...ends, way: `${nodeName(of.from)} → ${nodeName(of.to)}` }
  const question: Question = { path: '/v1/paths', parameters: { ...asked(flowFilters), ...ends, buckets: 60, limit: 5 } }
  const answer = useAnswer<Paths>(question)
  const lines = (a: Paths, p: 'p50_ns' | 'p99_ns'): Line[] => a.paths.map((path) => ({ name: route(path), points: (path.series ?? []).map((s) => ({ time: s.time, ns: s.delay?.[p] })) }))
  return (
    <section class="details" aria-label="The chosen pair">
      <div class="part">
        <h2>{way.way}</h2>
        <small>by path, the five busiest; drag over a chart to see a part of the time · <a href={screenHref('paths', way)}>Paths of it</a> · <a href={screenHref('packets', way)}>Packets of it</a></small>
      </div>
      <Shown of={answer} empty={(a) => a.paths.length === 0} nothing="No packets" part>
        {(a) => <>{(['p50_ns', 'p99_ns'] as const).map((p) => <Over key={p} title={p.slice(0, 3)} file={`pair-${p.slice(0, 3)}`} steps={stepsOf(a)} step={a.step_ns ?? 0} lines={lines(a, p)} />)}</>}
      </Shown>
    </section>
  )
}

const columns: Column<Pair>[] = [
  { key: 'from', title: 'From', value: (p) => nodeName(p.from), width: 150, grows: true },
  { key: 'to', title: 'To', vital: true, value: (p) => (p.to ? nodeName(p.to) : 'not seen to leave'), width: 150, grows: true, show: (p) => (p.to ? nodeName(p.to) : <span class="unknown">not seen to leave</span>) },
  { key: 'packets', title: 'Packets', value: (p) => p.packets, text: (p) => count(p.packets), number: true, width: 100 },
  { key: 'lost', title: 'Lost', about: 'Packets of which it is known that they were lost', value: lostOf, text: (p) => count(lostOf(p)), number: true, width: 80, vital: true, show: (p) => <Losses of={p} soft={p.to !== undefined} /> },
  { key: 'paths', title: 'Paths', value: (p) => p.paths, text: (p) => count(p.paths), number: true, width: 70 },
  ...(['p50_ns', 'p95_ns', 'p99_ns', 'max_ns'] as const).map((k): Column<Pair> => ({
    key: k, title: k === 'max_ns' ? 'Greatest' : k.slice(0, 3), about: `Delay from one to the other, by the clocks of both: ${percentiles[k]}`, value: (p) => p.delay?.[k], text: (p) => duration(p.delay?.[k]), number: true, width: 90, vital: k === 'p99_ns',
  })),
  { key: 'negative', title: 'Clocks', about: 'Packets whose delay is negative, because the clocks differ', value: (p) => p.delay_negative ?? 0, width: 110, show: (p) => <Negatives of={p.delay_negative} all={p.packets} /> },
]

/** The answer in a sentence. */
export function sentence(pairs: Pair[], by: Percentile): string {
  const timed = pairs.filter((p) => p.to && p.delay).sort((a, b) => b.delay![by] - a.delay![by])
  const worst = timed[0]
  const known = pairs.filter((p) => p.to).length, whole = known === 1 ? '1 pair of nodes' : `${count(known)} pairs of nodes`
  return worst ? `${whole}; the slowest is ${nodeName(worst.from)} → ${nodeName(worst.to)}: ${percentiles[by]} ${duration(worst.delay![by])}` : whole
}

function View() {
  const question: Question = { path: '/v1/grid', parameters: { ...asked(flowFilters), limit: 2000 } }
  const answer = useAnswer<Grid>(question)
  const by = (Object.hasOwn(percentiles, param('by')) ? param('by') : 'p99_ns') as Percentile
  const open = (a: Grid) => a.pairs.find((p) => param('pair') !== '' && idsOf(p) === param('pair'))
  return (
    <>
    <div class="choices"><Choice name="by" title="Delay" of={percentiles} usual="p99_ns" /></div>
    <Shown of={answer} empty={(a) => a.pairs.length === 0} nothing="No pairs of nodes: no packets were reported">
      {(a) => (
        <>
          <div class="title">
            <h1>{sentence(a.pairs, by)}</h1>
            <Actions question={question} csv={() => saveTable('grid', columns, a.pairs)} png={() => saveShown('grid', '.matrix')} />
          </div>
          <Matrix pairs={a.pairs} by={by} />
          {open(a) && <Opened of={open(a)!} />}
          <section>
            <h2>All pairs</h2>
            <Table name="main" title="Pairs of nodes" columns={columns} rows={a.pairs} id={rowOf} sort="-packets" height={420}
              opened={open(a) && rowOf(open(a)!)} open={(p) => { if (idsOf(p)) set({ pair: idsOf(p) === param('pair') ? null : idsOf(p) }, true) }} />
          </section>
        </>
      )}
    </Shown>
    </>
  )
}

export default {
  id: 'grid', title: 'Grid', order: 4, about: 'Node by node: the delay between the first and the last nodes of paths, and what was lost on the way. Grey is no data.', filters: flowFilters, view: View,
} satisfies Screen
