// SPDX-License-Identifier: Apache-2.0

package dashboards

// Units of Grafana.
const (
	perSecond = "cps"
	packets   = "pps"
	share     = "percentunit"
	seconds   = "s"
	octets    = "Bps"
	plain     = "short"
)

func pages() []page { return []page{nodes(), flows(), collector()} }

func nodes() page {
	return page{
		uid: "waymark-nodes", title: "Waymark: nodes", meaning: "What agents do with packets, and how well they are.",
		metric: "waymark_build_info",
		rows: []row{
			{title: "Health", panels: []panel{
				{title: "Agents", meaning: "Agents that answer.", unit: plain, number: true, queries: []query{{`count(waymark_build_info{instance=~"$instance"})`, "agents"}}},
				{title: "Errors", meaning: "'waymark doctor' on the node has the text and the cure of each.", unit: plain, number: true,
					queries: []query{{`sum(waymark_health_warnings{instance=~"$instance", severity="error"})`, "errors"}}},
				{title: "Warnings", unit: plain, number: true, queries: []query{{`sum(waymark_health_warnings{instance=~"$instance", severity="warning"})`, "warnings"}}},
				{title: "Hooks that are not executed", meaning: "Another program removed or precedes them.", unit: plain, number: true,
					queries: []query{{`count(waymark_hook_executed{instance=~"$instance"} == 0) or vector(0)`, "hooks"}}},
			}},
			{title: "Packets", panels: []panel{
				{title: "Packets by outcome", meaning: "What hooks did with packets.", unit: packets,
					queries: []query{{`sum by (outcome) (rate(waymark_packets_total{instance=~"$instance"}[$__rate_interval]))`, "{{outcome}}"}}},
				{title: "Options by outcome", unit: packets, queries: []query{{`sum by (outcome) (rate(waymark_options_total{instance=~"$instance"}[$__rate_interval]))`, "{{outcome}}"}}},
				{title: "Packets that the edge drops", meaning: "By interface: from outside, or an interface inside lacks its role.", unit: packets,
					queries: []query{
						{
							`sum by (instance, interface) (rate(waymark_packets_total{instance=~"$instance", outcome=~"boundary_dropped|boundary_unproven_dropped|boundary_tunnel_dropped"}[$__rate_interval]))`,
							"{{instance}} {{interface}}",
						},
					}},
				{title: "Left to the stack by fast forwarding", unit: packets,
					queries: []query{
						{`sum by (reason) (rate(waymark_forwarding_to_stack_total{instance=~"$instance"}[$__rate_interval]))`, "{{reason}}"},
					}},
			}},
			{title: "Records", panels: []panel{
				{title: "Records written by programs", unit: perSecond, queries: []query{
					{`sum by (instance) (rate(waymark_records_written_total{instance=~"$instance"}[$__rate_interval]))`, "{{instance}} records"},
					{`sum by (instance) (rate(waymark_postcards_total{instance=~"$instance"}[$__rate_interval]))`, "{{instance}} postcards"},
				}},
				{title: "Exported", unit: perSecond, queries: []query{{`sum by (instance, exporter) (rate(waymark_export_written_total{instance=~"$instance"}[$__rate_interval]))`, "{{instance}} {{exporter}}"}}},
				{title: "Lost records", meaning: "By programs whose reader was late, and by exporters.", unit: perSecond, queries: []query{
					{`sum by (instance) (rate(waymark_records_lost_total{instance=~"$instance"}[$__rate_interval]))`, "{{instance}} reader"},
					{`sum by (instance, exporter, cause) (rate(waymark_export_dropped_total{instance=~"$instance"}[$__rate_interval]))`, "{{instance}} {{exporter}} {{cause}}"},
				}},
				{title: "Waiting in exporters", unit: plain, queries: []query{{`sum by (instance, exporter) (waymark_export_queued_records{instance=~"$instance"})`, "{{instance}} {{exporter}}"}}},
			}},
			{title: "Tunnels", panels: []panel{
				{title: "Errors about tunnelled packets", unit: perSecond, queries: []query{{`sum by (result) (rate(waymark_tunnel_errors_total{instance=~"$instance"}[$__rate_interval]))`, "{{result}}"}}},
				{title: "Path MTU of tunnels", meaning: "Where it is smaller than the interface's.", unit: plain, queries: []query{{`waymark_path_mtu_bytes{instance=~"$instance"}`, "{{instance}} to {{destination}}"}}},
			}},
		},
	}
}

func flows() page {
	return page{
		uid: "waymark-flows", title: "Waymark: loss and delay of flows", metric: "waymark_measured_flows",
		meaning: "SRv6 flows by alternate marking, flows from edge to edge, and test packets. Single flows are there with metrics: true.",
		rows: []row{
			{title: "All measured flows", panels: []panel{
				{title: "Loss", meaning: "Of the packets of blocks of which it is known how many were lost.", unit: share, queries: []query{{
					`sum by (instance) (rate(waymark_loss_packets_total{instance=~"$instance", kind="lost"}[$__rate_interval])) / sum by (instance) (rate(waymark_loss_packets_total{instance=~"$instance", kind="sent"}[$__rate_interval]))`, "{{instance}}",
				}}},
				{title: "Blocks by verdict", unit: perSecond, queries: []query{{`sum by (verdict) (rate(waymark_loss_blocks_total{instance=~"$instance"}[$__rate_interval]))`, "{{verdict}}"}}},
				{title: "Beyond thresholds", unit: plain, queries: []query{{`sum by (code) (waymark_flows_beyond_threshold{instance=~"$instance"})`, "{{code}}"}}},
				{title: "Measured flows", unit: plain, queries: []query{{`sum by (instance, direction) (waymark_measured_flows{instance=~"$instance"})`, "{{instance}} {{direction}}"}}},
			}},
			{title: "Single flows", panels: []panel{
				{title: "Loss by segment", unit: share, queries: []query{{
					`sum by (flow, segment) (rate(waymark_flow_loss_packets_total{instance=~"$instance", kind="lost"}[$__rate_interval])) / sum by (flow, segment) (rate(waymark_flow_loss_packets_total{instance=~"$instance", kind="sent"}[$__rate_interval]))`, "{{flow}} {{segment}}",
				}}},
				{title: "Delay by segment", unit: seconds, queries: []query{{`waymark_flow_delay_seconds{instance=~"$instance"}`, "{{flow}} {{segment}} {{method}}"}}},
				{title: "Packets", unit: packets, queries: []query{{`sum by (flow, direction) (rate(waymark_flow_packets_total{instance=~"$instance"}[$__rate_interval]))`, "{{flow}} {{direction}}"}}},
			}},
			{title: "From edge to edge", panels: []panel{
				{title: "Packets", unit: packets, queries: []query{
					{`sum by (instance) (rate(waymark_e2e_packets_total{instance=~"$instance"}[$__rate_interval]))`, "{{instance}}"},
				}},
				{title: "Lost, duplicated, reordered", unit: packets, queries: []query{
					{`sum by (instance) (rate(waymark_e2e_lost_total{instance=~"$instance"}[$__rate_interval]))`, "{{instance}} lost"},
					{`sum by (instance) (rate(waymark_e2e_duplicates_total{instance=~"$instance"}[$__rate_interval]))`, "{{instance}} duplicated"},
					{`sum by (instance) (rate(waymark_e2e_reordered_total{instance=~"$instance"}[$__rate_interval]))`, "{{instance}} reordered"},
				}},
				{title: "Test packets", unit: perSecond, queries: []query{{`sum by (kind) (rate(waymark_delay_probes_total{instance=~"$instance"}[$__rate_interval]))`, "{{kind}}"}}},
			}},
		},
	}
}

func collector() page {
	return page{
		uid: "waymark-collector", title: "Waymark: collector", meaning: "What a collector received, joined and lost.",
		metric: "waymark_collect_messages_total",
		rows: []row{
			{title: "Arrival", panels: []panel{
				{title: "Records", unit: perSecond, queries: []query{{`sum by (instance) (rate(waymark_collect_records_total{instance=~"$instance"}[$__rate_interval]))`, "{{instance}}"}}},
				{title: "Octets", unit: octets, queries: []query{{`sum by (instance) (rate(waymark_collect_octets_total{instance=~"$instance"}[$__rate_interval]))`, "{{instance}}"}}},
				{title: "Sessions", unit: plain, queries: []query{{`sum by (instance) (waymark_collect_sessions{instance=~"$instance"})`, "{{instance}}"}}},
				{title: "Lost before they were read", unit: perSecond, queries: []query{
					{`sum by (instance) (rate(waymark_collect_socket_dropped_total{instance=~"$instance"}[$__rate_interval]))`, "{{instance}} datagrams"},
					{`sum by (instance, cause) (rate(waymark_collect_malformed_total{instance=~"$instance"}[$__rate_interval]))`, "{{instance}} {{cause}}"},
				}},
			}},
			{title: "Paths and losses", panels: []panel{
				{title: "Paths by reason why they are incomplete", unit: perSecond, queries: []query{{`sum by (reason) (rate(waymark_collect_paths_total{instance=~"$instance"}[$__rate_interval]))`, "{{reason}}"}}},
				{title: "Paths of lost packets", unit: perSecond, queries: []query{
					{`sum by (instance) (rate(waymark_collect_paths_lost_total{instance=~"$instance"}[$__rate_interval]))`, "{{instance}} lost"},
					{`sum by (instance) (rate(waymark_collect_paths_unknown_total{instance=~"$instance"}[$__rate_interval]))`, "{{instance}} not known"},
				}},
				{title: "Packets that wait for postcards", unit: plain, queries: []query{{`sum by (instance) (waymark_collect_waiting_packets{instance=~"$instance"})`, "{{instance}}"}}},
				{title: "Flows beyond thresholds", unit: plain, queries: []query{{`sum by (code) (waymark_collect_flows_beyond_threshold{instance=~"$instance"})`, "{{code}}"}}},
			}},
			{title: "Joined packets", panels: []panel{
				{title: "Packets of paths", unit: perSecond, queries: []query{{`sum by (path) (rate(waymark_joined_packets_total{instance=~"$instance"}[$__rate_interval]))`, "{{path}}"}}},
				{title: "Lost packets of paths", unit: perSecond, queries: []query{{`sum by (path) (rate(waymark_joined_packets_total{instance=~"$instance", verdict="lost"}[$__rate_interval]))`, "{{path}}"}}},
				{title: "Delay of paths, 99th percentile", meaning: "By the clocks of both ends. Needs native histograms (scrape_native_histograms: true).", unit: seconds, queries: []query{
					{`histogram_quantile(0.99, sum by (path) (rate(waymark_joined_path_delay_seconds{instance=~"$instance"}[$__rate_interval])))`, "{{path}}"},
				}},
				{title: "Delay of segments, 99th percentile", meaning: "By the clocks of both nodes. Needs native histograms.", unit: seconds, queries: []query{
					{`histogram_quantile(0.99, sum by (from, to) (rate(waymark_joined_segment_delay_seconds{instance=~"$instance"}[$__rate_interval])))`, "{{from}} > {{to}}"},
				}},
				{title: "Held by nodes, 99th percentile", meaning: "By the node's own clock. Needs native histograms.", unit: seconds, queries: []query{
					{`histogram_quantile(0.99, sum by (from, to) (rate(waymark_joined_held_seconds{instance=~"$instance"}[$__rate_interval])))`, "{{from}} to {{to}}"},
				}},
				{title: "Segments with clocks that differ", meaning: "Packets whose time from one node to the next is negative.", unit: perSecond, queries: []query{
					{`sum by (from, to) (rate(waymark_joined_segment_negative_total{instance=~"$instance"}[$__rate_interval]))`, "{{from}} > {{to}}"},
				}},
			}},
			{title: "Output", panels: []panel{
				{title: "Written", unit: perSecond, queries: []query{{`sum by (output) (rate(waymark_collect_output_written_total{instance=~"$instance"}[$__rate_interval]))`, "{{output}}"}}},
				{title: "Lost", unit: perSecond, queries: []query{{`sum by (output, cause) (rate(waymark_collect_output_dropped_total{instance=~"$instance"}[$__rate_interval]))`, "{{output}} {{cause}}"}}},
			}},
			{title: "Store", panels: []panel{
				{title: "Files and free disk", unit: octets, queries: []query{
					{`sum by (instance) (waymark_store_bytes{instance=~"$instance"})`, "{{instance}} files"},
					{`sum by (instance) (waymark_store_disk_free_bytes{instance=~"$instance"})`, "{{instance}} free"},
				}},
				{title: "Is written", meaning: "1 while records are written, 0 while they are not.", unit: plain, queries: []query{{`min by (instance) (waymark_store_writable{instance=~"$instance"})`, "{{instance}}"}}},
				{title: "Files that left in an hour", meaning: "By cause. Those of disk would be kept longer by store.age and store.size.", unit: plain, queries: []query{{`sum by (instance, cause) (increase(waymark_store_files_removed_total{instance=~"$instance"}[1h]))`, "{{instance}} {{cause}}"}}},
				{title: "Attempts to pack a file in an hour", unit: plain, queries: []query{{`sum by (instance, result) (increase(waymark_store_packings_total{instance=~"$instance"}[1h]))`, "{{instance}} {{result}}"}}},
			}},
		},
	}
}
