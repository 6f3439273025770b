// SPDX-License-Identifier: Apache-2.0

import { useMemo, useRef } from 'preact/hooks'
import { useAnswer, type Question } from '../ask'
import { count, difference, duration, nodeName, share, shareBar, triple } from '../format'
import { Actions } from '../parts/actions'
import { Shown, Wholeness } from '../parts/answer'
import { lostOf, lossUnknown } from '../parts/losses'
import { Passing, passing } from '../parts/passing'
import { saveTable, Table, type Column } from '../parts/table'
import { useWidth } from '../parts/width'
import { savePNG } from '../export'
import { Drawing } from '../paths/drawing'
import { Hops } from '../paths/hops'
import { fitting } from '../paths/layout'
import { both, drawable, merge, route, type Both, type Graph } from '../paths/merge'
import { asked, zone } from '../question'
import { param, params, set } from '../route'
import { flowFilters, type Screen } from '../screen'
import { comparedSpan, showRange } from '../time'
import type { Path, Paths } from '../types'

/** Paths in the drawing; more are a thicket. */
const drawn = 12

function columnsOf(compared: boolean, usual: Path | undefined): Column<Both>[] {
  const known = new Set(usual?.hops.map((h) => nodeName(h)))
  const path = (p: Path) => p.hops.map((h, i) => {
    const name = nodeName(h)
    return <span key={i}>{i > 0 && <i class="arrow"> → </i>}{usual && known.has(name) ? name : <b>{name}</b>}</span>
  })
  const number = (key: string, title: string, of: (p: Path) => number | undefined, text: (n: number | undefined) => string, width: number, about?: string, vital?: boolean): Column<Both> =>
    ({ key, title, about, vital, value: (r) => r.now && of(r.now), text: (r) => text(r.now && of(r.now)), number: true, width })
  return [
    { key: 'route', title: 'Path', about: 'Nodes in order. Those that the busiest path does not have are bold.', value: (r) => route(r.any), show: (r) => <>{path(r.any)}{r.any.complete ? '' : <span class="tag">incomplete</span>}</>, width: 300, grows: true },
    { ...number('share', 'Share', (p) => p.share, share, 116, undefined, true), show: (r) => <span class="bar-cell"><span class="bar-of" style={shareBar(r.now?.share)} /><span>{share(r.now?.share)}</span></span> },
    ...(compared ? [{ key: 'share_before', title: 'before', value: (r: Both) => r.before?.share, text: (r: Both) => share(r.before?.share), number: true, width: 74 }] : []),
    number('packets', 'Packets', (p) => p.packets, count, 92),
    number('lost', 'Lost', lostOf, count, 66, 'Packets of which it is known that they were lost; – where that cannot be known'),
    number('p50', 'p50', (p) => p.delay?.p50_ns, duration, 82, 'Median of the delay from the first node to the last'),
    number('p95', 'p95', (p) => p.delay?.p95_ns, duration, 82),
    number('p99', 'p99', (p) => p.delay?.p99_ns, duration, 82, undefined, true),
    ...(compared ? [{
      key: 'p99_change', title: 'p99 before', value: (r: Both) => r.before?.delay?.p99_ns, width: 146, number: true,
      text: (r: Both) => `${difference(r.now?.delay?.p99_ns, r.before?.delay?.p99_ns)} ${duration(r.before?.delay?.p99_ns)}`,
      show: (r: Both) => <span class="soft">{difference(r.now?.delay?.p99_ns, r.before?.delay?.p99_ns)} <span class="was">{duration(r.before?.delay?.p99_ns)}</span></span>,
    }] : []),
  ]
}

function headline(a: Paths, graph: Graph) {
  const paths = a.cut ? `more than ${count(a.paths.length)} paths` : a.paths.length === 1 ? 'one path' : `${count(a.paths.length)} paths`
  const lost = a.paths.reduce((sum, p) => sum + p.lost, 0), e = graph.slowEdge, n = graph.slowNode
  return (
    <>
      <h1>{a.paths.length === 0 ? <>No packets of these flows; {count(a.before?.packets)} before</> : <>{count(a.packets)} packets on {paths}</>}{lost > 0 && <>, <span class="lost">{count(lost)} lost</span></>}</h1>
      <p class="sub">
        {e && <>Slowest segment: <b class="slow">{graph.nodes.get(e.from)?.name} → {graph.nodes.get(e.to)?.name}</b>, p99 {duration(e.since?.p99_ns)}. </>}
        {n && <>Longest in a node: <b class="slow">{n.name}</b>, p99 {duration(n.held?.p99_ns)}.</>}
      </p>
    </>
  )
}

function View() {
  const frame = useRef<HTMLDivElement>(null), wide = useWidth(frame)
  const question: Question = { path: '/v1/paths', parameters: { ...asked(flowFilters), ...passing(), compare: comparedSpan(params.value), limit: 100 } }
  const answer = useAnswer<Paths>(question)
  const before = answer.data?.before ?? null
  const now = useRef<SVGSVGElement>(null), then = useRef<SVGSVGElement>(null)
  const drawing = useMemo(() => {
    if (!answer.data) return null
    const a = answer.data, shown = drawable(a.paths, drawn), graph = merge(shown, a)
    const earlier = before && merge(drawable(before.paths, drawn), before)
    const room = earlier && wide >= 1140 ? wide / 2 - 10 : wide
    return { graph, earlier, shown, layout: fitting(earlier ? [graph, earlier] : [graph], room || 1200) }
  }, [answer.data, before, wide])
  const list = useMemo(() => both(answer.data?.paths ?? [], before?.paths ?? []), [answer.data, before])
  const columns = useMemo(() => columnsOf(before !== null, answer.data?.paths[0] ?? before?.paths[0]), [answer.data, before])
  return (
    <div ref={frame}>
    <Passing />
    <Shown of={answer} empty={(a) => a.paths.length === 0 && !a.before?.paths.length} nothing="No packets of these flows">
      {(a) => {
        const open = list.find((p) => p.id === param('path'))
        const detailed = open ?? list[0]
        return (
          <>
            <div class="title">
              {headline(a, drawing!.graph)}
              <Actions question={question} csv={() => saveTable('paths', columns, list)} png={async () => {
                if (now.current) await savePNG('paths', now.current)
                if (then.current) await savePNG('paths-before', then.current)
              }} />
            </div>
            <div class={before ? 'periods two' : 'periods'}>
              <figure>
                {before && <figcaption><b>Now</b> {showRange(a.from, a.until, zone())} · {a.paths.length > 0 ? `${count(a.packets)} packets` : 'no packets: nothing is known'}</figcaption>}
                <Drawing svg={now} graph={drawing!.graph} layout={drawing!.layout} chosen={open?.id ?? ''} label={`Graph of ${drawing!.shown.length} paths with their shares and delays; the tables below have the same`} />
              </figure>
              {before && drawing!.earlier && (
                <figure>
                  <figcaption><b>Before</b> {showRange(before.from, before.until, zone())} · {before.paths.length > 0 ? `${count(before.packets)} packets` : 'no packets: nothing is known'}</figcaption>
                  <Wholeness of={before} />
                  <Drawing svg={then} graph={drawing!.earlier} layout={drawing!.layout} chosen={open?.id ?? ''} label="The same graph of the period before" />
                </figure>
              )}
            </div>
            <p class="caption">
              Lines are as thick as their share of the packets. Times are p50 / p95 / p99{a.paths.length > 1 ? ', of all listed paths together' : ''}; the slowest is <span class="slow">marked</span>.
              {drawing!.shown.length < a.paths.length && <> The drawing has the busiest paths, {share(drawing!.shown.reduce((sum, p) => sum + p.share, 0))} of the packets.</>}
              {a.paths.some((p) => !p.loss_known) && <> Lost {lossUnknown}</>}
            </p>
            <section>
              <h2>Paths <small>open one to see it node by node</small></h2>
              <Table name="main" title="Paths" columns={columns} rows={list} id={(p) => p.id} opened={open?.id} open={(p) => set({ path: p.id === open?.id ? null : p.id }, true)} height={300} />
            </section>
            {detailed && (
              <section>
                <h2>{open ? 'The chosen path' : 'The busiest path'}{detailed.now ? '' : ', before'} <small>{share((detailed.now ?? detailed.any).share)}, {detailed.now?.delay ? <>p50 / p95 / p99 {triple(detailed.now.delay)}</> : 'no delay from end to end'}</small></h2>
                <Hops of={detailed} compared={before !== null} />
              </section>
            )}
          </>
        )
      }}
    </Shown>
    </div>
  )
}

export default {
  id: 'paths', title: 'Paths', order: 1, about: 'Which paths packets took between prefixes, with their shares, and the delay at each node.', filters: flowFilters, compare: true, view: View,
} satisfies Screen
