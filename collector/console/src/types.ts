// SPDX-License-Identifier: Apache-2.0

// Made by `npm run types` from docs/reference/collector-api.json; do not edit.

export interface AggregatedFlow {
  /** Their bytes, from the IPv6 header on. */
  bytes: number
  /** Destination address; absent when it is not known. */
  destination_address?: string
  /** Absent when the protocol has none. */
  destination_port?: number
  /** When the first of these packets was seen, by the clock of the node. */
  first: string
  /** Flow-ID of the option; absent without one. */
  flow_id?: number
  /** IPv6 flow label. */
  flow_label: number
  /** How long the node held packets; absent when nothing says it. Of single postcards only if no record of the flow says it. */
  held?: HeldFor
  /** When the last of them was seen. */
  last: string
  /** Packets that came after one with a later Sequence Number; absent without Sequence Numbers. */
  late?: number
  /** Packets that are missing, by their Sequence Numbers; absent when no record says it. */
  missing?: number
  /** Records that do not say how many are missing, though packets have Sequence Numbers. */
  missing_unknown: number
  /** IOAM Namespace-ID. */
  namespace: number
  /** Protocol of the upper layer. */
  next_header: number
  /** Name of the node that reported it, or its address. */
  node?: string
  /** Packets, by the records. */
  packets: number
  /** Single postcards of its packets, which are in no path because they lack Flow-ID, Sequence Number or role. They are in no other sum of packets or bytes. */
  postcards: number
  /** Records of the aggregated flow. */
  records: number
  /** Its role: encapsulating, transit or decapsulating. */
  role: string
  /** The same in steps, if step or buckets are given, by the times of records. A step without a record is not in it. */
  series?: FlowPoint[]
  /** Source address; absent when it is not known. */
  source_address?: string
  /** Absent when the protocol has none. */
  source_port?: number
}

export interface AggregatedFlows {
  /** Why the answer is not whole; absent when it is. */
  cut?: Cut
  /** Files of the store that were read. */
  files: number
  /** The flows by node and role, in the order that was asked for. Each node of a path reports the same flow: compare nodes, do not add them up. */
  flows: AggregatedFlow[]
  /** Begin of the time that the answer is about. */
  from: string
  /** Times of which something is missing: it was not written, as while the disk is full, was lost, cannot be read, or is older than what is kept. */
  gaps?: Gap[]
  /** Length of the steps of series; absent when none were asked for. */
  step_ns?: number
  /** Packets for which the condition of where has no result, as when it adds a number to a value that the packet lacks; they are not selected. */
  undecided?: number
  /** Its end, exclusive. */
  until: string
}

export interface Begun {
  /** Since when the stream has what was kept. */
  from: string
  /** How many packets of that time are left out; 0 for a role that sees a part. */
  missed: number
}

export interface Block {
  /** Number of the block; absent for test packets. */
  block?: number
  /** Name of the flow, if it has one. */
  flow?: string
  /** Its number. */
  flow_id: number
  /** Number of the first point. */
  from: number
  /** The node that is the first point, if it is known. */
  from_node?: string
  /** Its length. */
  length_ns: number
  /** Packets that were lost; absent when that is not known. */
  lost?: number
  /** How many packets were lost at least. Only with the verdict duplicated. */
  lost_min?: number
  /** Why it is uncertain, because of the first point or the second one. */
  reasons?: string[]
  /** Packets counted at the second point; absent if it did not report. */
  received?: number
  /** whole: from the ingress to the egress; segment: between two neighbouring points. */
  scope: string
  /** Packets counted at the first point; absent if it did not report. */
  sent?: number
  /** Its begin, by the clock of the ingress. */
  start: string
  /** Number of the second point. */
  to: number
  /** The node that is the second point, if it is known. */
  to_node?: string
  /** measured: the counters are exact; idle: they are, and there was no packet; duplicated: more came than were sent, so that it is not known how many were lost; uncertain: there are reasons not to trust them; no-data: neither point reported. Only measured and idle know the loss. */
  verdict: string
}

export interface Blocks {
  /** Blocks by flow and segment, the latest first. */
  blocks: Block[]
  /** Why the answer is not whole; absent when it is. */
  cut?: Cut
  /** Files of the store that were read. */
  files: number
  /** Begin of the time that the answer is about. */
  from: string
  /** Times of which something is missing: it was not written, as while the disk is full, was lost, cannot be read, or is older than what is kept. */
  gaps?: Gap[]
  /** Length of the steps of series; absent when none were asked for. */
  step_ns?: number
  /** Packets for which the condition of where has no result, as when it adds a number to a value that the packet lacks; they are not selected. */
  undecided?: number
  /** Its end, exclusive. */
  until: string
}

export interface Caller {
  /** The user logged in with OpenID Connect; POST /logout ends that. */
  login: boolean
  /** The role sees a part of the packets. */
  part: boolean
  /** admin or viewer. */
  role: string
  /** Name; absent where the collector has no users. */
  user?: string
}

export interface Change {
  /** The paths of this window. */
  became: Share[]
  /** Begin of that window before. */
  before: string
  /** Destination address. */
  destination?: string
  /** Share of the packets that take another path: half the sum of the differences of all shares. Packets that are spread over equal paths, always in the same shares, did not move. */
  moved: number
  /** Namespace-ID of the packets' options. */
  namespace: number
  /** Source address. */
  source?: string
  /** Begin of the window in which the paths are others than in the one before that had packets. */
  time: string
  /** The paths of the window before. */
  was: Share[]
}

export interface Changes {
  /** The changes, the latest first. */
  changes: Change[]
  /** Why the answer is not whole; absent when it is. */
  cut?: Cut
  /** Files of the store that were read. */
  files: number
  /** Begin of the time that the answer is about. */
  from: string
  /** Times of which something is missing: it was not written, as while the disk is full, was lost, cannot be read, or is older than what is kept. */
  gaps?: Gap[]
  /** Length of the steps of series; absent when none were asked for. */
  step_ns?: number
  /** Packets for which the condition of where has no result, as when it adds a number to a value that the packet lacks; they are not selected. */
  undecided?: number
  /** Its end, exclusive. */
  until: string
}

export interface Counted {
  /** Blocks with a result. */
  blocks: number
  /** Those of them of which the loss is not known: they are in no sum. */
  blocks_uncertain: number
  /** Those of them that were lost. */
  lost: number
  /** lost divided by sent; absent when nothing is known to be sent. */
  ratio?: number
  /** Packets that were sent in the other blocks. */
  sent: number
}

export interface Cut {
  /** What to do. */
  cure: string
  /** The sentence alone. */
  problem: string
  /** Which bound cut the answer: limit, the number of items; time, how long a question may take; search, how many packets are compared with a condition, or how many different paths and segments these may have. */
  reason: string
  /** The same in a sentence, with what to do. */
  text: string
}

export interface DelayPoint {
  /** Records beyond the flow's threshold for delay. */
  beyond: number
  /** Records that lack one of both errors. */
  clock_unknown: number
  /** Greatest error of the first point's clock; absent when no record says it. */
  from_clock_error_ns?: number
  /** Mean difference between the delays of consecutive blocks or test packets; absent when no two followed one another. */
  jitter_ns?: number
  /** The mean, by samples. */
  mean_ns: number
  /** The least one. One-way delays are differences of two clocks, and may be negative. */
  min_ns: number
  /** The greatest 95th percentile of a record, exactly. */
  p95_max_ns: number
  /** 95th percentile of the records' 95th percentiles, by samples, within 2.2%: of blocks, which have one sample each, that of all delays. */
  p95_ns: number
  /** Records, of a block or of a period with test packets each. */
  records: number
  /** Delays that were measured: of blocks, or of test packets. */
  samples: number
  /** Begin of the step. */
  time: string
  /** Greatest error of the second point's clock; absent when no record says it. */
  to_clock_error_ns?: number
}

export interface DelaySums {
  /** Records beyond the flow's threshold for delay. */
  beyond: number
  /** Records that lack one of both errors. */
  clock_unknown: number
  /** Greatest error of the first point's clock; absent when no record says it. */
  from_clock_error_ns?: number
  /** Mean difference between the delays of consecutive blocks or test packets; absent when no two followed one another. */
  jitter_ns?: number
  /** The mean, by samples. */
  mean_ns: number
  /** The least one. One-way delays are differences of two clocks, and may be negative. */
  min_ns: number
  /** The greatest 95th percentile of a record, exactly. */
  p95_max_ns: number
  /** 95th percentile of the records' 95th percentiles, by samples, within 2.2%: of blocks, which have one sample each, that of all delays. */
  p95_ns: number
  /** Records, of a block or of a period with test packets each. */
  records: number
  /** Delays that were measured: of blocks, or of test packets. */
  samples: number
  /** Greatest error of the second point's clock; absent when no record says it. */
  to_clock_error_ns?: number
}

export interface Delays {
  /** How many delays. */
  count: number
  /** The greatest one, exactly. */
  max_ns: number
  /** Their mean. */
  mean_ns: number
  /** Median. */
  p50_ns: number
  /** 95th percentile. */
  p95_ns: number
  /** 99th percentile. */
  p99_ns: number
}

export interface EdgeLoss {
  /** Destination address. */
  destination: string
  /** Packets that came twice. */
  duplicates: number
  /** Packets that are missing; absent when no record says it. */
  lost?: number
  /** IOAM Namespace-ID. */
  namespace: number
  /** The decapsulating node. */
  node?: string
  /** Packets that came. */
  packets: number
  /** Packets that came after a later one. */
  reordered: number
  /** Source address. */
  source: string
  /** Records that do not say how many were lost. */
  unknown: number
}

export interface Event {
  /** What to do, if it is a warning. */
  cure?: string
  /** What happened: the name of the event, or the code of the warning. */
  event: string
  /** event: it happened; warning: the collector warns of a measured flow or of a node id. */
  kind: string
  /** Names and places; the keys depend on the event. */
  labels?: Record<string, string>
  /** The node that found it, or the host of the collector. */
  node?: string
  /** info, warning or error. A warning that has ended is info. */
  severity: string
  /** When it began, as far as is known; absent: at time. */
  since?: string
  /** What it happened to: of a warning, the flow. */
  subject?: string
  /** What happened, in words. */
  text: string
  /** When it was found, by the clock of who found it. */
  time: string
  /** Numbers; the keys depend on the event. */
  values?: Record<string, number>
}

export interface Events {
  /** Why the answer is not whole; absent when it is. */
  cut?: Cut
  /** Events that nodes or the collector found, and warnings of the collector, the latest first. */
  events: Event[]
  /** Files of the store that were read. */
  files: number
  /** Begin of the time that the answer is about. */
  from: string
  /** Times of which something is missing: it was not written, as while the disk is full, was lost, cannot be read, or is older than what is kept. */
  gaps?: Gap[]
  /** Length of the steps of series; absent when none were asked for. */
  step_ns?: number
  /** Packets for which the condition of where has no result, as when it adds a number to a value that the packet lacks; they are not selected. */
  undecided?: number
  /** Its end, exclusive. */
  until: string
}

export interface Exporter {
  /** Records that did not come in their turn, and may still come. */
  awaited: number
  /** Times when any number of records may be missing, as after a restart of the exporter. */
  breaks: number
  /** How much its clock is ahead of the collector's, at least: a time that it wrote minus the time at which that came, the greatest of the last half minute or minute. The time on the way is in it: of a good clock it is a little below 0, and far below 0 of one that is behind or of records that come late. Nothing is corrected by it. */
  clock_ahead_ns: number
  /** Its Observation Domain ID. */
  domain: number
  /** Address from which it sends. */
  exporter: string
  /** When its first message came, since the collector runs. */
  first: string
  /** How old the newest postcard of its last message was when it came, by both clocks; absent when it sends none. */
  lag_ns?: number
  /** When its last message came. */
  last: string
  /** Errors in these messages. */
  malformed: number
  /** Messages that were decoded. */
  messages: number
  /** Records that did not come, by the numbers of messages. */
  missed: number
  /** Name, if it sent one. */
  node?: string
  /** Data records in them. */
  records: number
  /** Its sessions that are not over. */
  sessions: Session[]
  /** How long ago that was. */
  silent_ns: number
  /** sends: its last message came in the last 5 minutes. silent: it did not, which is a warning. gone: nothing came for 24 hours, so that it counts as taken away: there is no warning of it any more. An exporter that comes back sends. */
  state: string
  /** Templates of all its sessions. */
  templates: number
}

export interface Failure {
  /** What is wrong, and what to do. */
  error: string
  /** The word error. */
  kind: string
}

export interface FlowLoss {
  /** The same of the other time that was asked for by compare; absent when there was nothing. */
  before?: Counted
  /** Blocks with a result. */
  blocks: number
  /** Those of them of which the loss is not known: they are in no sum. */
  blocks_uncertain: number
  /** Name of the flow, if it has one. */
  flow?: string
  /** Its number. */
  flow_id: number
  /** Number of the first point. */
  from: number
  /** The node that is the first point, if it is known. */
  from_node?: string
  /** Those of them that were lost. */
  lost: number
  /** lost divided by sent; absent when nothing is known to be sent. */
  ratio?: number
  /** whole: from the ingress to the egress; segment: between two neighbouring points. */
  scope: string
  /** Packets that were sent in the other blocks. */
  sent: number
  /** The same in steps, if step or buckets are given, or by minute with series=true. A step without a block is not in it. */
  series?: LossPoint[]
  /** Number of the second point. */
  to: number
  /** The node that is the second point, if it is known. */
  to_node?: string
}

export interface FlowPoint {
  /** Their bytes, from the IPv6 header on. */
  bytes: number
  /** When the first of these packets was seen, by the clock of the node. */
  first: string
  /** How long the node held packets; absent when nothing says it. Of single postcards only if no record of the flow says it. */
  held?: HeldFor
  /** When the last of them was seen. */
  last: string
  /** Packets that came after one with a later Sequence Number; absent without Sequence Numbers. */
  late?: number
  /** Packets that are missing, by their Sequence Numbers; absent when no record says it. */
  missing?: number
  /** Records that do not say how many are missing, though packets have Sequence Numbers. */
  missing_unknown: number
  /** Packets, by the records. */
  packets: number
  /** Single postcards of its packets, which are in no path because they lack Flow-ID, Sequence Number or role. They are in no other sum of packets or bytes. */
  postcards: number
  /** Records of the aggregated flow. */
  records: number
  /** Begin of the step. */
  time: string
}

export interface Gap {
  /** Begin of the time that is missing. */
  from: string
  /** Why it is missing. */
  reason: string
  /** Its end. */
  until: string
}

export interface Grid {
  /** Why the answer is not whole; absent when it is. */
  cut?: Cut
  /** Files of the store that were read. */
  files: number
  /** Begin of the time that the answer is about. */
  from: string
  /** Times of which something is missing: it was not written, as while the disk is full, was lost, cannot be read, or is older than what is kept. */
  gaps?: Gap[]
  /** Pairs of nodes between which packets went. For others nothing is known. */
  pairs: Pair[]
  /** Length of the steps of series; absent when none were asked for. */
  step_ns?: number
  /** Packets for which the condition of where has no result, as when it adds a number to a value that the packet lacks; they are not selected. */
  undecided?: number
  /** Its end, exclusive. */
  until: string
}

export interface Health {
  /** Since when the collector runs; what it counts, it counts since then. */
  began: string
  /** Counters of what was received and joined, as the metrics have them. */
  collector: Record<string, number>
  /** Who sends, by address and domain. */
  exporters: Exporter[]
  /** What was lost on its way into the store, by cause. Records that exporters say they sent and that did not come are sequence_gap. */
  lost: LostRecords[]
  /** The collector's clock. */
  now: string
  /** Records are written, and no file is missing. */
  ok: boolean
  /** The same warnings, in the same order: sentence and what to do apart. */
  problems: Problem[]
  /** The sockets over UDP, by endpoint. */
  receive_buffers: ReceiveBuffer[]
  /** Records that the store was offered, by what became of them. */
  records: Record<string, number>
  /** The store. */
  store: StoreHealth
  /** Packets that wait for postcards. */
  waiting: number
  /** What is wrong, each in a sentence with what to do. */
  warnings: string[]
}

export interface Heartbeat {
  /** Why nothing is written, and so nothing is shown; absent when everything is. */
  fault?: string
  /** How many watch; 0 for a role that sees a part. */
  readers: number
  /** The collector's clock. */
  time: string
}

export interface HeldFor {
  /** Packets of which it was measured. */
  count: number
  /** The longest time. */
  max_ns: number
  /** The mean. */
  mean_ns: number
  /** The shortest time. */
  min_ns: number
}

export interface Hop {
  /** The interface by which they leave. */
  egress?: Interface
  /** Address from which its records came; absent in a trace that packets carried. */
  exporter?: string
  /** How long the node held packets. */
  held?: Delays
  /** How many hops it is after the node before, by hop limits; absent when that is not known. */
  hops?: number
  /** The interface by which packets come. */
  ingress?: Interface
  /** Name, if its exporter sent one. */
  node?: string
  /** node_id of RFC 9197, of 24 or 56 bits; absent when the node did not report one. */
  node_id?: number | string
  /** encapsulating, transit or decapsulating. */
  role: string
  /** Number of the segment that begins here. */
  segment: string
  /** Time since the node before, by the clocks of both. */
  since?: Delays
  /** Packets whose time since the node before is negative, because the clocks differ; not in since. */
  since_negative?: number
}

export interface Instead {
  /** What to do to see them, or to get paths. */
  cure: string
  /** Records of aggregated flows. */
  flow_records: number
  /** Single postcards that are in no path, because they lack Flow-ID, Sequence Number or role. */
  postcards: number
  /** The same in a sentence. */
  text: string
}

export interface Interface {
  /** Its index; of a trace that packets carried, its id. */
  index: number
  /** Name, if the exporter sent one. */
  name?: string
}

export interface InterfaceNames {
  /** What its operator wrote about it. */
  description?: string
  /** Its id of 16 bits (trace field 1). */
  id?: number
  /** Or that of 32 bits (trace field 9). */
  id_wide?: number
  /** Its name. */
  name: string
}

export interface LossPoint {
  /** Blocks with a result. */
  blocks: number
  /** Those of them of which the loss is not known: they are in no sum. */
  blocks_uncertain: number
  /** Those of them that were lost. */
  lost: number
  /** Its begin. */
  minute: string
  /** lost divided by sent; absent when nothing is known to be sent. */
  ratio?: number
  /** Packets that were sent in the other blocks. */
  sent: number
  /** The same, by the name that other series have. */
  time: string
}

export interface Losses {
  /** Why the answer is not whole; absent when it is. */
  cut?: Cut
  /** Flows that are measured from edge to edge. */
  edge_flows: EdgeLoss[]
  /** Files of the store that were read. */
  files: number
  /** Measured flows by segment, those that lost the greatest share first. */
  flows: FlowLoss[]
  /** Begin of the time that the answer is about. */
  from: string
  /** Times of which something is missing: it was not written, as while the disk is full, was lost, cannot be read, or is older than what is kept. */
  gaps?: Gap[]
  /** Length of the steps of series; absent when none were asked for. */
  step_ns?: number
  /** Packets for which the condition of where has no result, as when it adds a number to a value that the packet lacks; they are not selected. */
  undecided?: number
  /** Its end, exclusive. */
  until: string
}

export interface LostRecords {
  /** Why, as the metrics have it. */
  cause: string
  /** How many, since the collector runs. */
  count: number
  /** Where: receive, decode, join, or the name of an output. */
  stage: string
  /** The same in words. */
  text: string
}

export interface MeasuredDelay {
  /** The same of the other time that was asked for by compare; absent when there was nothing. */
  before?: DelaySums
  /** Records beyond the flow's threshold for delay. */
  beyond: number
  /** Records that lack one of both errors. */
  clock_unknown: number
  /** Name of the flow, if it has one. */
  flow?: string
  /** Its number. */
  flow_id: number
  /** Number of the first point. */
  from: number
  /** Greatest error of the first point's clock; absent when no record says it. */
  from_clock_error_ns?: number
  /** The node that is the first point, if it is known. */
  from_node?: string
  /** Mean difference between the delays of consecutive blocks or test packets; absent when no two followed one another. */
  jitter_ns?: number
  /** The mean, by samples. */
  mean_ns: number
  /** mean-of-sums: one-way, of blocks that lost no packet; mean-at-least: one-way, a lower bound, of blocks that lost some; double-marking: one-way, of packets with a second mark. With test packets: one-way, two-way (without the time at the other node), round-trip (with it). */
  method: string
  /** The least one. One-way delays are differences of two clocks, and may be negative. */
  min_ns: number
  /** The greatest 95th percentile of a record, exactly. */
  p95_max_ns: number
  /** 95th percentile of the records' 95th percentiles, by samples, within 2.2%: of blocks, which have one sample each, that of all delays. */
  p95_ns: number
  /** Records, of a block or of a period with test packets each. */
  records: number
  /** Delays that were measured: of blocks, or of test packets. */
  samples: number
  /** whole: from the ingress to the egress; segment: between two neighbouring points. */
  scope: string
  /** The same in steps, if step or buckets are given. A step without a record is not in it. */
  series?: DelayPoint[]
  /** Number of the second point. */
  to: number
  /** Greatest error of the second point's clock; absent when no record says it. */
  to_clock_error_ns?: number
  /** The node that is the second point, if it is known. */
  to_node?: string
  /** How far a delay by two clocks is to be trusted, each in a sentence with what to do. No delay is corrected by it. */
  warnings?: string[]
}

export interface MeasuredDelays {
  /** Why the answer is not whole; absent when it is. */
  cut?: Cut
  /** The delays by flow, segment and method, the greatest mean first. */
  delays: MeasuredDelay[]
  /** Files of the store that were read. */
  files: number
  /** Begin of the time that the answer is about. */
  from: string
  /** Times of which something is missing: it was not written, as while the disk is full, was lost, cannot be read, or is older than what is kept. */
  gaps?: Gap[]
  /** Length of the steps of series; absent when none were asked for. */
  step_ns?: number
  /** Packets for which the condition of where has no result, as when it adds a number to a value that the packet lacks; they are not selected. */
  undecided?: number
  /** Its end, exclusive. */
  until: string
}

export interface Missed {
  /** Items that were left out since the last event of this name: there were more than rate, or the reader was too slow. Some of them may not have been selected. 0: a role that sees a part learns no number. */
  missed: number
}

export interface Names {
  /** Why the answer is not whole; absent when it is. */
  cut?: Cut
  /** Files of the store that were read. */
  files: number
  /** Begin of the time that the answer is about. */
  from: string
  /** Times of which something is missing: it was not written, as while the disk is full, was lost, cannot be read, or is older than what is kept. */
  gaps?: Gap[]
  /** One for each id: a node with ids of both widths comes twice. Without interfaces for a role with a scope. */
  nodes: NodeNames[]
  /** Length of the steps of series; absent when none were asked for. */
  step_ns?: number
  /** Packets for which the condition of where has no result, as when it adds a number to a value that the packet lacks; they are not selected. */
  undecided?: number
  /** Its end, exclusive. */
  until: string
}

export interface Node {
  /** Address from which its records came; absent in a trace that packets carried. */
  exporter?: string
  /** Name, if its exporter sent one. */
  node?: string
  /** node_id of RFC 9197, of 24 or 56 bits; absent when the node did not report one. */
  node_id?: number | string
}

export interface NodeNames {
  /** Its interfaces, by ids of the same width. */
  interfaces: InterfaceNames[]
  /** Its name. Of an id that two nodes have, both names. */
  name: string
  /** Its node_id of 24 bits (trace field 0). */
  node_id?: number | string
  /** Or that of 56 bits (trace field 8). */
  node_id_wide?: number
}

export interface NodeTotal {
  /** Address from which its records came; absent in a trace that packets carried. */
  exporter?: string
  /** How long it held packets. */
  held?: Delays
  /** Name, if its exporter sent one. */
  node?: string
  /** node_id of RFC 9197, of 24 or 56 bits; absent when the node did not report one. */
  node_id?: number | string
  /** Packets on the listed paths that have the node. */
  packets: number
}

export interface Packet {
  /** From the first node to the last, by the clocks of both; negative where these differ by more. */
  delay_ns?: number
  /** Destination address; absent when it is not known. */
  destination_address?: string
  /** Absent when the protocol has none. */
  destination_port?: number
  /** Flow-ID of the option; absent in a trace. */
  flow_id?: number
  /** IPv6 flow label. */
  flow_label: number
  /** Bytes from the IPv6 header on. */
  length: number
  /** IOAM Namespace-ID. */
  namespace: number
  /** Protocol of the upper layer. */
  next_header: number
  /** The nodes in the order of the path. */
  nodes: PacketNode[]
  /** Number of its path. */
  path: string
  /** complete, or why the path is not. */
  reason: string
  /** Sequence Number of the option; absent in a trace. */
  sequence?: number
  /** postcards: it is joined from them; trace: it carried its path; kernel: the same, from the kernel's own IOAM. */
  source: string
  /** Source address; absent when it is not known. */
  source_address?: string
  /** Absent when the protocol has none. */
  source_port?: number
  /** When the packet was at the first node that reported a time. */
  time: string
  /** arrived, lost or unknown: what became of the packet. */
  verdict: string
}

export interface PacketNode {
  /** The minute of these records. */
  clock_error_at?: string
  /** How wrong the node's clock was at most, by its own records of loss and delay near that time; absent when none says it. timestamp is not corrected by it. */
  clock_error_ns?: number
  /** The interface by which it left. */
  egress?: Interface
  /** Address from which its records came; absent in a trace that packets carried. */
  exporter?: string
  /** How long the node held the packet. */
  held_ns?: number
  /** Hop limit that the node found. */
  hop_limit?: number
  /** The interface by which it came. */
  ingress?: Interface
  /** Name, if its exporter sent one. */
  node?: string
  /** node_id of RFC 9197, of 24 or 56 bits; absent when the node did not report one. */
  node_id?: number | string
  /** Depth of its egress queue, as the node counts. */
  queue_depth?: number
  /** encapsulating, transit or decapsulating. */
  role: string
  /** Since the node before that reported a time; negative where clocks differ. */
  since_previous_ns?: number
  /** The node's time as it reported it, by its own clock, without a correction. */
  timestamp?: string
}

export interface Packets {
  /** Why the answer is not whole; absent when it is. */
  cut?: Cut
  /** Files of the store that were read. */
  files: number
  /** Begin of the time that the answer is about. */
  from: string
  /** Times of which something is missing: it was not written, as while the disk is full, was lost, cannot be read, or is older than what is kept. */
  gaps?: Gap[]
  /** The packets, the latest first. */
  packets: Packet[]
  /** Length of the steps of series; absent when none were asked for. */
  step_ns?: number
  /** Packets for which the condition of where has no result, as when it adds a number to a value that the packet lacks; they are not selected. */
  undecided?: number
  /** Its end, exclusive. */
  until: string
}

export interface Pair {
  /** The same of the other time that was asked for by compare; absent when there was nothing. */
  before?: PairMeasured
  /** From one to the other, by the clocks of both. */
  delay?: Delays
  /** Packets whose delay is negative, because the clocks differ; not in delay. */
  delay_negative?: number
  /** The encapsulating node. */
  from: Node
  /** Whether it can be known that packets were lost: by postcards that are missing. A trace comes with its packet, so that of traces, lost is 0, and no measured zero. */
  loss_known: boolean
  /** Packets of which it is known that they were lost: only of a pair without a last node. */
  lost: number
  /** Packets from one to the other. */
  packets: number
  /** On how many paths. */
  paths: number
  /** The decapsulating node; absent for packets that no such node reported. */
  to?: Node
}

export interface PairMeasured {
  /** From one to the other, by the clocks of both. */
  delay?: Delays
  /** Packets whose delay is negative, because the clocks differ; not in delay. */
  delay_negative?: number
  /** Packets of which it is known that they were lost: only of a pair without a last node. */
  lost: number
  /** Packets from one to the other. */
  packets: number
  /** On how many paths. */
  paths: number
}

export interface Path {
  /** Their bytes. */
  bytes: number
  /** It is known from end to end: packets of an incomplete path were lost, or nodes did not report. */
  complete: boolean
  /** From the first node to the last, by the clocks of both. */
  delay?: Delays
  /** Packets whose delay is negative, because the clocks differ; not in delay. */
  delay_negative?: number
  /** When the first of these packets was seen. */
  first: string
  /** The nodes in the order of the path. */
  hops: Hop[]
  /** Packets that not every node reported. */
  incomplete: number
  /** When the last of them was seen. */
  last: string
  /** Whether it can be known that packets were lost: by postcards that are missing. A trace comes with its packet, so that of traces, lost is 0, and no measured zero. */
  loss_known: boolean
  /** Packets of which it is known that they were lost. */
  lost: number
  /** IOAM Namespace-ID. */
  namespace: number
  /** Packets that took it. */
  packets: number
  /** Number of the path: the same as long as its nodes and interfaces are. */
  path: string
  /** What was measured in steps, if step or buckets are given. A step without a packet is not in it. */
  series?: PathPoint[]
  /** Their share of all packets that were asked for. */
  share: number
}

export interface PathPoint {
  /** From the first node to the last, by the clocks of both. */
  delay?: Delays
  /** Packets whose delay is negative, because the clocks differ; not in delay. */
  delay_negative?: number
  /** Packets that not every node reported. */
  incomplete: number
  /** Packets of which it is known that they were lost. */
  lost: number
  /** Packets that took the path. */
  packets: number
  /** Their share of all packets of the step that were asked for. */
  share: number
  /** Begin of the step. */
  time: string
}

export interface Paths {
  /** The same of the other time that was asked for by compare: a path has the same number in both. */
  before?: Paths
  /** Why the answer is not whole; absent when it is. */
  cut?: Cut
  /** Files of the store that were read. */
  files: number
  /** Begin of the time that the answer is about. */
  from: string
  /** Times of which something is missing: it was not written, as while the disk is full, was lost, cannot be read, or is older than what is kept. */
  gaps?: Gap[]
  /** What came though no packet with its path did; absent when there are packets, or nothing else came. */
  instead?: Instead
  /** The nodes of the listed paths, with what they held on all of these together. */
  nodes: NodeTotal[]
  /** Packets on all paths, also on those that are not listed. */
  packets: number
  /** The paths, the busiest first. */
  paths: Path[]
  /** The segments of the listed paths, on all of these together. */
  segments: SegmentTotal[]
  /** Length of the steps of series; absent when none were asked for. */
  step_ns?: number
  /** Packets for which the condition of where has no result, as when it adds a number to a value that the packet lacks; they are not selected. */
  undecided?: number
  /** Its end, exclusive. */
  until: string
}

export interface Problem {
  /** What to do; absent if that is not known. */
  cure?: string
  /** What is wrong. */
  text: string
}

export interface ReceiveBuffer {
  /** Room of the smallest one for datagrams that wait. */
  bytes: number
  /** Where it receives. */
  endpoint: string
  /** Sockets of this endpoint. */
  sockets: number
}

export interface Segment {
  /** The same of the other time that was asked for, by baseline or compare; absent when there was nothing. */
  baseline?: SegmentMeasured
  /** The interface by which they leave it. */
  egress?: Interface
  /** The node that packets leave. */
  from: Node
  /** How long the first node held them. */
  held?: Delays
  /** How many hops it is, by hop limits: more than 1 if nodes between did not report. Absent when it is not known. */
  hops?: number
  /** The interface by which they come to it. */
  ingress?: Interface
  /** Time between the timestamps of the two nodes, by the clocks of both; differences that are negative are not in it. */
  link?: Delays
  /** Packets whose difference is negative, because the clocks differ. */
  link_negative?: number
  /** Whether it can be known that packets were lost: by postcards that are missing. A trace comes with its packet, so that of traces, lost is 0, and no measured zero. */
  loss_known: boolean
  /** Those of which it is known that they were lost after it; only of a segment without a next node. */
  lost: number
  /** IOAM Namespace-ID. */
  namespace: number
  /** Packets that passed the first node. */
  packets: number
  /** Number of the segment: the same as long as its nodes and interfaces are. */
  segment: string
  /** The same in steps, if step or buckets are given. A step in which no packet passed is not in it. */
  series?: SegmentPoint[]
  /** The next node that reported them; absent: none did. */
  to?: Node
}

export interface SegmentMeasured {
  /** How long the first node held them. */
  held?: Delays
  /** Time between the timestamps of the two nodes, by the clocks of both; differences that are negative are not in it. */
  link?: Delays
  /** Packets whose difference is negative, because the clocks differ. */
  link_negative?: number
  /** Those of which it is known that they were lost after it; only of a segment without a next node. */
  lost: number
  /** Packets that passed the first node. */
  packets: number
}

export interface SegmentPoint {
  /** How long the first node held them. */
  held?: Delays
  /** Time between the timestamps of the two nodes, by the clocks of both; differences that are negative are not in it. */
  link?: Delays
  /** Packets whose difference is negative, because the clocks differ. */
  link_negative?: number
  /** Those of which it is known that they were lost after it; only of a segment without a next node. */
  lost: number
  /** Packets that passed the first node. */
  packets: number
  /** Begin of the step. */
  time: string
}

export interface SegmentTotal {
  /** Packets on the listed paths that have the segment. */
  packets: number
  /** Number of the segment. */
  segment: string
  /** Time from its first node to the next one, by the clocks of both. */
  since?: Delays
  /** Packets whose time is negative, because the clocks differ; not in since. */
  since_negative?: number
}

export interface Segments {
  /** Why the answer is not whole; absent when it is. */
  cut?: Cut
  /** Files of the store that were read. */
  files: number
  /** Begin of the time that the answer is about. */
  from: string
  /** Times of which something is missing: it was not written, as while the disk is full, was lost, cannot be read, or is older than what is kept. */
  gaps?: Gap[]
  /** The segments, in the order that was asked for. */
  segments: Segment[]
  /** Length of the steps of series; absent when none were asked for. */
  step_ns?: number
  /** Packets for which the condition of where has no result, as when it adds a number to a value that the packet lacks; they are not selected. */
  undecided?: number
  /** Its end, exclusive. */
  until: string
}

export interface Session {
  /** When its last message came. */
  last: string
  /** Templates that are known in it. */
  templates: number
  /** udp or tcp; TLS is over tcp. */
  transport: string
}

export interface Share {
  /** Mean delay from the first node to the last, by the clocks of both. */
  delay_mean_ns?: number
  /** Its nodes in order. */
  nodes: Node[]
  /** Packets that took it. */
  packets: number
  /** Number of the path. */
  path: string
  /** Their share. */
  share: number
}

export interface StoreHealth {
  /** Bytes of all files. */
  bytes: number
  /** What to do about it; absent if that is not known. */
  cure?: string
  /** Where the files are. */
  directory: string
  /** Bytes that the disk has left. */
  disk_free: number
  /** Why nothing is written; absent when everything is. */
  fault?: string
  /** Files that can be read. */
  files: number
  /** Files that cannot be read. */
  files_lost: number
  /** Files that were packed after their time was over, so that they take less of the disk. */
  files_packed: number
  /** When the oldest file was begun. */
  first: string
  /** How long ago the oldest file was begun. */
  kept_ns: number
  /** Packets in all files. */
  packets: number
  /** Why files could not be packed lately; they are as they were, and it is tried again. */
  packing_fault?: string
  /** Bytes that packing has saved since the collector began. */
  packing_saved: number
  /** Other records in all files. */
  records: number
}
