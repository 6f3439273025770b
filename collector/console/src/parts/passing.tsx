// SPDX-License-Identifier: Apache-2.0

// Packets of one segment, or between two nodes: what a link from another screen selects.
import type { Parameters } from '../ask'
import { visible } from '../format'
import { href, param } from '../route'

const names = ['segment', 'from_node_id', 'to_node_id'] as const

/** The parameters of the question. */
export const passing = (): Parameters => Object.fromEntries(names.map((name) => [name, param(name)]))

/** Says what is selected, by the words of the link, and takes it away. */
export function Passing() {
  if (!names.some((name) => param(name))) return null
  const which = param('segment') ? `segment ${param('segment')}` : [param('from_node_id') && `from node ${param('from_node_id')}`, param('to_node_id') && `to node ${param('to_node_id')}`].filter(Boolean).join(' ')
  return (
    <p class="notice">
      Only packets of <b title={visible(which)}>{visible(param('way') || which)}</b>.{' '}
      <a href={href({ segment: null, from_node_id: null, to_node_id: null, way: null })}>Show all</a>
    </p>
  )
}
