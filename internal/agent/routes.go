// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"

	"github.com/waymark-net/waymark/internal/agent/service"
)

// route is one request of the API.
type route struct {
	pattern string
	handle  service.Handler
}

// api is the whole API, including the routes of services. The comment above a route is its text in
// docs/reference/api.md: what it does, the request, the answer, and status codes of its own.
func (a *Agent) api() []route {
	list := slices.Concat(a.agentRoutes(), a.namespaceRoutes(), a.encapsulationRoutes(), a.interfaceRoutes())
	for _, s := range a.services {
		for pattern, handle := range s.Routes() {
			list = append(list, route{pattern, handle})
		}
	}
	return list
}

// agentRoutes are about the agent as a whole.
func (a *Agent) agentRoutes() []route {
	return []route{
		// The state of the agent: `version`, `agent`, `pid`, `started`, `config_file`, `loaded`, `modified`
		// (changes made at runtime are in force), `node` (`name`, `id`, `id_wide`, `timestamp_format`,
		// `compatibility`), `interfaces`, `namespaces`, `encapsulations`, `decapsulations`, `path_mtus` (those of
		// tunnels that are known: `destination`, `mtu` in bytes, `until` when it expires), `tunnel_errors` (ICMPv6
		// errors that arrived while there were tunnels, by [result](metrics.md); `lost` counts at any time),
		// `loopback_copies` (copies of packets with the Loopback flag, by [result](metrics.md); absent if there
		// are none), `measurement`, `records`, `warnings`, `metrics` (the URL; absent if metrics are not served).
		//
		// Each of `interfaces` has `name`, `index` (0 while it is missing), `id`, `id_wide`, `roles`, `boundary`
		// (the default policy), `boundary_namespaces` (policies by namespace; absent if there are none), `mtu`,
		// `ingress_hook`, `egress_hook`, `native_xdp_refused`, `hooks` (one object each for `ingress` and
		// `egress`, as `direction`: `mode`, `program` (the kernel's id), `place`, `attached`, `in_place`,
		// `sees_packets`, `before` (programs of others that run earlier), `checked` (when the agent last looked)),
		// `forwarding` (`stack` or `fast`), `records_written`, `records_lost`, for Direct Export `postcards`,
		// `exports_suppressed` (by the limits), `flows_evicted` (replaced by others) and `sequences_evicted`
		// (flows whose Sequence Numbers restarted), `srh_malformed` (packets with a malformed Segment Routing
		// Header, while flows are measured, by fault; only if there are any), `loopback` (packets by what was done
		// about the Loopback flag: `asked`, `returned`, `suppressed`; absent if there are none), `unmarked`
		// (packets of measured flows that left without the option that would mark them, by cause; only if there
		// are any), and in `ingress` and `egress` the packets by outcome, without zeros, and in `ingress_options`
		// and `egress_options` the IOAM options by outcome. An interface that forwards fast also has `forwarded`,
		// packets forwarded without the stack by outcome, and `to_stack`, packets left to the stack by reason.
		//
		// `records` has `read`, `malformed`, `observers`, `observers_dropped`, and `exporters`. Each exporter has
		// `name`, `written`, `dropped` (its queue was full), `failed`, `queued` and the `error` of the last
		// attempt; an exporter to a collector also has `connected`, `messages` and `octets`. With
		// `node.kernel-events`, `kernel_events` has `received`, `malformed` and `lost` (they overran the agent's
		// socket). Where no records will come, because no trace ends at the node and it neither exports nor hears
		// events, `advice` says so.
		//
		// `measurement` counts messages about SRv6 flows, by outcome and without zeros: `stamp_packets`,
		// `stamp_notes`, `stamp_socket_dropped` and `stamp_sessions` of this node's
		// [reflector](../how-to/stamp.md#counters); `responder_queries` of its responders, by protocol;
		// `questions_unsent`, `question_replies`, `probes_unsent`, `probe_replies`, `block_answers` and `readings`
		// of what it [asks other nodes](../how-to/measure-srv6-protocols.md#what-went-wrong-with-messages).
		{"GET /v1/status", a.getStatus},
		// The [warnings](warnings.md) and hints, the most severe first: `code`, `severity`, `title`, `interface`
		// (if it is about one), `text`, `cure`.
		{"GET /v1/warnings", a.getWarnings},
		// The running configuration as YAML, with every default.
		{"GET /v1/config", a.getConfig},
		// Loads the file again. If the file has an error, nothing changes, and the answer lists every error. Else
		// it is `{"runtime_changes_ended":true}`, or false when nothing had been changed at runtime. `warnings`
		// lists the [warnings](warnings.md) and hints about the node that the earlier configuration did not cause.
		{"POST /v1/reload", a.postReload},
		// `{"remove":false}` ends the agent; packets keep their treatment. `{"remove":true}` first removes its
		// programs from every interface, and then answers. `warnings` lists what the removal breaks on other
		// nodes: tunnels that ended here.
		{"POST /v1/stop", a.postStop},
	}
}

// namespaceRoutes are about namespaces and schemas.
func (a *Agent) namespaceRoutes() []route {
	return []route{
		// The list.
		{"GET /v1/namespaces", a.getNamespaces},
		// Adds one: `{"id":124,"data":"0xdeadbeef"}`. If it exports, the answer is 200 with the `warnings` about
		// that, such as a limit that allows few of its postcards, else 204.
		{"POST /v1/namespaces", a.postNamespace},
		// `{"remove":true,"loopback":false}` sets what this node does with the namespace's options: any
		// [key of a namespace](configuration.md#namespaces) but `id`, its data, and those that have requests of
		// their own below. Keys that are absent stay as they are.
		// `{"pot":{"key_file":"/etc/waymark/pot-node-3.key","drop_rejected":true}}` gives the namespace a proof of
		// transit, or another key; `{"pot":{"key_file":""}}` ends it. The agent reads the file.
		{"PATCH /v1/namespaces/{id}", a.patchNamespace},
		// Removes one. Its schema stays. If encapsulations insert its traces or Direct Exports, these leave
		// without this node's data from then on, and the answer is 200 with the `warnings` about them, else 204.
		// One whose key or settings an encapsulation needs (`pot`, `e2e`, incremental traces) is not removed.
		{"DELETE /v1/namespaces/{id}", a.deleteNamespace},
		// `{"schema":777}` binds a schema, `{"schema":null}` none.
		{"PUT /v1/namespaces/{id}/schema", a.putSchema},
		// `{"export":"every"}`, or `none`, `aggregate`, or `sample` with `"sample":100`: what the node does with
		// the namespace's Direct Exports. The answer to another mode than `none` is 200 with the `warnings` about it.
		{"PUT /v1/namespaces/{id}/export", a.putExport},
		// The list: `id`, `data`, and the `namespaces` that use it.
		{"GET /v1/schemas", a.getSchemas},
		// Adds one: `{"id":777,"data":"rack 7"}`.
		{"POST /v1/schemas", a.postSchema},
		// Removes one, also from the namespaces that use it.
		{"DELETE /v1/schemas/{id}", a.deleteSchema},
	}
}

// encapsulationRoutes are about encapsulations.
func (a *Agent) encapsulationRoutes() []route {
	return []route{
		// The list, in the order of the rules.
		{"GET /v1/encapsulations", a.getEncapsulations},
		// Adds a rule after the others. Without a tunnel source, the tunnel's source is the address from which the
		// kernel would send to its destination, also after addresses and routes change. If there is none now, the
		// rule is refused.
		//
		// ```json
		// {"name":"core","interface":"eth1","match":{"destination":"2001:db8:2::/64"},"frequency":"1/100","mode":"encap",
		//  "tunnel":{"destination":"2001:db8:ff::3"},
		//  "options":[{"trace":{"namespace":123,"type":"0x800000","size":12}},
		//             {"dex":{"namespace":124,"trace_type":"0xc00000","extension_flags":["flow-id","sequence"]}}]}
		// ```
		//
		// With `?inline=refuse`, here and in the two requests below, a rule of mode inline is refused on a node
		// that forwards, unless it matches only this node's own packets; without it, the answer has the warning
		// `inline_forwarded`.
		{"POST /v1/encapsulations", a.postEncapsulation},
		// Puts a rule in the place of the one that selects the same packets on the same interface. That one keeps
		// its name, which the answer gives. When there is none, the rule is added under its own name; with
		// `?existing=true`, the answer is 404 instead. When there are several, it is 409.
		{"PUT /v1/encapsulations", a.putSameEncapsulation},
		// Removes the one rule that the body selects; the answer gives its name. It is 404 when none is selected,
		// and 409 when several are. All that the body says must agree with the rule: `name`, `interface`, criteria
		// in `match`, and `insertion`, which has everything that the rule inserts (`flows`, `frequency`, `mode`,
		// `tunnel`, `options`) and asks for the same `match`.
		//
		// ```json
		// {"interface":"eth1","match":{"destination":"2001:db8:2::/64","destination_port":443}}
		// ```
		{"DELETE /v1/encapsulations", a.deleteSelectedEncapsulation},
		// Replaces the rule of that name, or adds one after the others. The body is that of `POST`, with the same
		// name. With `?existing=true` it never adds a rule: if there is none of that name, the answer is 404.
		{"PUT /v1/encapsulations/{name}", a.putEncapsulation},
		// Removes a rule.
		{"DELETE /v1/encapsulations/{name}", a.deleteEncapsulation},
	}
}

// interfaceRoutes are about interfaces and decapsulations.
func (a *Agent) interfaceRoutes() []route {
	return []route{
		// The interfaces as they are configured now. Their state and counters are in the status.
		{"GET /v1/interfaces", a.getInterfaces},
		// `{"role":["ingress","egress"],"boundary":"strip"}` changes both at once. An absent key stays as it is;
		// `[]` means no role. `boundary` sets all policies: a word, or
		// `{"default":"drop","namespaces":{"123":"ignore"}}`. Without either key, the answer is 400. A role that
		// encapsulations of the interface need cannot be taken away.
		{"PATCH /v1/interfaces/{name}", a.patchInterface},
		// The list.
		{"GET /v1/decapsulations", a.getDecapsulations},
		// Adds one: `{"tunnel_destination":"2001:db8:ff::3","sources":["2001:db8:ff::/64"],"bare":false}`; the
		// last two may be absent. `sources` that is `null` or `[]` is refused, because without it any source is
		// taken.
		{"POST /v1/decapsulations", a.postDecapsulation},
		// Removes one. Traced packets of nodes that still tunnel there are lost, so remove their encapsulations
		// first; a warning in the answer says so.
		{"DELETE /v1/decapsulations/{address}", a.deleteDecapsulation},
	}
}
