// SPDX-License-Identifier: Apache-2.0

import { useAnswer, type Question } from '../ask'
import { count, duration, nodeName, share } from '../format'
import { Actions } from '../parts/actions'
import { Shown } from '../parts/answer'
import { saveTable, Table, type Column } from '../parts/table'
import { asked } from '../question'
import { flowFilters, type Screen } from '../screen'
import type { Path, Paths } from '../types'

const route = (p: Path) => p.hops.map((h) => nodeName(h)).join(' → ')

const columns: Column<Path>[] = [
  { key: 'route', title: 'Path', value: route, width: 320, grows: true },
  { key: 'share', title: 'Share', value: (p) => p.share, text: (p) => share(p.share), number: true, width: 80 },
  { key: 'packets', title: 'Packets', value: (p) => p.packets, text: (p) => count(p.packets), number: true, width: 100 },
  { key: 'lost', title: 'Lost', value: (p) => p.lost, text: (p) => count(p.lost), number: true, width: 80 },
  { key: 'p50', title: 'p50', value: (p) => p.delay?.p50_ns, text: (p) => duration(p.delay?.p50_ns), number: true, width: 90 },
  { key: 'p99', title: 'p99', value: (p) => p.delay?.p99_ns, text: (p) => duration(p.delay?.p99_ns), number: true, width: 90 },
]

function View() {
  const question: Question = { path: '/v1/paths', parameters: { ...asked(flowFilters), limit: 100 } }
  const answer = useAnswer<Paths>(question)
  return (
    <Shown of={answer} empty={(a) => a.paths.length === 0} nothing="No packets of these flows">
      {(a) => (
        <>
          <div class="title">
            <h1>{count(a.packets)} packets on {count(a.paths.length)} paths</h1>
            <Actions question={question} csv={() => saveTable('paths', columns, a.paths)} />
          </div>
          <Table name="main" title="Paths" columns={columns} rows={a.paths} id={(p) => p.path} />
        </>
      )}
    </Shown>
  )
}

export default {
  id: 'paths', title: 'Paths', order: 1, about: 'Which paths packets took between prefixes, with their shares, and the delay at each node.', filters: flowFilters, compare: true, view: View,
} satisfies Screen
