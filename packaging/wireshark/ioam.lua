-- SPDX-License-Identifier: Apache-2.0
-- Wireshark and tshark: the IOAM options that Wireshark 4.0 does not decode: incremental
-- trace and Proof of Transit (RFC 9197 §4.4, §4.5), Edge-to-Edge (RFC 9197 §4.6), Direct Export
-- (RFC 9326) with its fields, and any of them in option 0x11; the option of alternate marking
-- (RFC 9343). Needs no preferences. Copy it to the directory "Personal Lua Plugins" of Help, About,
-- Folders; or: tshark -X lua_script:ioam.lua

local ioam = Proto("ioam", "In-situ OAM")
local altmark = Proto("altmark", "Alternate Marking")

local option_types = {
	[0] = "Pre-allocated Trace",
	[1] = "Incremental Trace",
	[2] = "Proof of Transit",
	[3] = "Edge-to-Edge",
	[4] = "Direct Export",
}

local f = {
	type = ProtoField.uint8("ioam.type", "IOAM Option-Type", base.DEC, option_types),
	namespace = ProtoField.uint16("ioam.namespace", "Namespace-ID"),

	trace_nodelen = ProtoField.uint16("ioam.trace.nodelen", "NodeLen", base.DEC, nil, 0xf800),
	trace_overflow = ProtoField.bool("ioam.trace.overflow", "Overflow", 16, nil, 0x0400),
	trace_loopback = ProtoField.bool("ioam.trace.loopback", "Loopback", 16, nil, 0x0200),
	trace_active = ProtoField.bool("ioam.trace.active", "Active", 16, nil, 0x0100),
	trace_remaining = ProtoField.uint16("ioam.trace.remaining", "RemainingLen", base.DEC, nil, 0x007f),
	trace_type = ProtoField.uint24("ioam.trace.type", "IOAM Trace-Type", base.HEX),
	node = ProtoField.bytes("ioam.node", "Node"),

	pot_type = ProtoField.uint8("ioam.pot.type", "IOAM POT-Type"),
	pot_flags = ProtoField.uint8("ioam.pot.flags", "IOAM POT Flags", base.HEX),
	pot_pktid = ProtoField.uint64("ioam.pot.pktid", "PktID", base.HEX),
	pot_cumulative = ProtoField.uint64("ioam.pot.cumulative", "Cumulative", base.HEX),

	e2e_type = ProtoField.uint16("ioam.e2e.type", "IOAM-E2E-Type", base.HEX),
	e2e_sequence = ProtoField.uint64("ioam.e2e.sequence", "Sequence Number"),
	e2e_seconds = ProtoField.uint32("ioam.e2e.seconds", "Timestamp seconds"),
	e2e_fraction = ProtoField.uint32("ioam.e2e.fraction", "Timestamp fraction"),

	dex_flags = ProtoField.uint8("ioam.dex.flags", "Flags", base.HEX),
	dex_extensions = ProtoField.uint8("ioam.dex.extension_flags", "Extension-Flags", base.HEX),
	dex_type = ProtoField.uint24("ioam.dex.trace_type", "IOAM Trace-Type", base.HEX),
	dex_flow = ProtoField.uint32("ioam.dex.flow_id", "Flow ID", base.HEX),
	dex_sequence = ProtoField.uint32("ioam.dex.sequence", "Sequence Number"),
	dex_unknown = ProtoField.uint32("ioam.dex.unknown", "Unknown optional field", base.HEX),
}
ioam.fields = f

local a = {
	flow = ProtoField.uint32("altmark.flow_mon_id", "FlowMonID", base.DEC, nil, 0xfffff000),
	loss = ProtoField.bool("altmark.loss", "Loss flag", 32, nil, 0x00000800),
	delay = ProtoField.bool("altmark.delay", "Delay flag", 32, nil, 0x00000400),
}
altmark.fields = a

local too_short = ProtoExpert.new("ioam.too_short", "Option too short for its fields", expert.group.MALFORMED, expert.severity.ERROR)
local sequences = ProtoExpert.new("ioam.e2e.sequences", "Both Sequence Numbers are asked for (RFC 9197 §4.6)", expert.group.MALFORMED, expert.severity.ERROR)
local nodelen = ProtoExpert.new("ioam.trace.wrong_nodelen", "NodeLen contradicts the IOAM Trace-Type", expert.group.MALFORMED, expert.severity.ERROR)
local cut_node = ProtoExpert.new("ioam.trace.cut", "The node data list ends within a node's data", expert.group.MALFORMED, expert.severity.ERROR)
ioam.experts = { too_short, sequences, nodelen, cut_node }
local altmark_length = ProtoExpert.new("altmark.length", "Option length is not 4 (RFC 9343 §3.1)", expert.group.MALFORMED, expert.severity.ERROR)
altmark.experts = { altmark_length }

-- Node data of a trace, in the order of the type's bits: name, bytes.
local node_fields = {
	{ "Hop_Lim and node_id", 4 }, { "ingress_if_id and egress_if_id", 4 },
	{ "timestamp seconds", 4 }, { "timestamp fraction", 4 }, { "transit delay", 4 },
	{ "namespace specific data", 4 }, { "queue depth", 4 }, { "checksum complement", 4 },
	{ "Hop_Lim and node_id wide", 8 }, { "ingress_if_id and egress_if_id wide", 8 },
	{ "namespace specific data wide", 8 }, { "buffer occupancy", 4 },
}
for bit = 12, 21 do
	node_fields[bit + 1] = { "undefined bit " .. bit, 4 }
end

local function has(type, bit)
	return bit32.btest(type, bit32.lshift(1, 23 - bit))
end

-- Length of a node's data without an opaque state snapshot, in bytes.
local function node_length(type)
	local bytes = 0
	for i, field in ipairs(node_fields) do
		if has(type, i - 1) then
			bytes = bytes + field[2]
		end
	end
	return bytes
end

-- Adds one node's data; how long they are, or nil where they do not fit.
local function add_node(tree, data, at, type)
	local length = node_length(type)
	if at + length > data:len() then
		return nil
	end
	local snapshot = 0
	if has(type, 22) then
		if at + length + 4 > data:len() then
			return nil
		end
		snapshot = 4 + 4 * data(at + length, 1):uint()
		if at + length + snapshot > data:len() then
			return nil
		end
	end
	if length + snapshot == 0 then
		return nil
	end
	local node = tree:add(f.node, data(at, length + snapshot))
	local offset = at
	for i, field in ipairs(node_fields) do
		if has(type, i - 1) then
			node:add(data(offset, field[2]), field[1] .. ": 0x" .. tostring(data(offset, field[2]):bytes()))
			offset = offset + field[2]
		end
	end
	if snapshot > 0 then
		node:add(data(offset, snapshot), "opaque state snapshot: 0x" .. tostring(data(offset, snapshot):bytes()))
	end
	return length + snapshot
end

-- Functions for the data after the IOAM Option-Type. Wireshark itself decodes pre-allocated traces.
local dissect = {}

dissect[1] = function(data, tree)
	if data:len() < 8 then
		tree:add_proto_expert_info(too_short)
		return
	end
	local type = data(4, 3):uint()
	tree:add(f.namespace, data(0, 2))
	tree:add(f.trace_nodelen, data(2, 2))
	tree:add(f.trace_overflow, data(2, 2))
	tree:add(f.trace_loopback, data(2, 2))
	tree:add(f.trace_active, data(2, 2))
	tree:add(f.trace_remaining, data(2, 2))
	tree:add(f.trace_type, data(4, 3))
	local word = data(2, 2):uint()
	if bit32.rshift(word, 11) * 4 ~= node_length(type) then
		tree:add_proto_expert_info(nodelen)
		return
	end
	local at = 8
	while at < data:len() do
		local length = add_node(tree, data, at, type)
		if not length then
			tree:add_proto_expert_info(cut_node)
			return
		end
		at = at + length
	end
end

dissect[2] = function(data, tree)
	if data:len() < 4 then
		tree:add_proto_expert_info(too_short)
		return
	end
	tree:add(f.namespace, data(0, 2))
	tree:add(f.pot_type, data(2, 1))
	tree:add(f.pot_flags, data(3, 1))
	if data(2, 1):uint() ~= 0 then
		return
	end
	if data:len() < 20 then
		tree:add_proto_expert_info(too_short)
		return
	end
	tree:add(f.pot_pktid, data(4, 8))
	tree:add(f.pot_cumulative, data(12, 8))
end

dissect[3] = function(data, tree)
	if data:len() < 4 then
		tree:add_proto_expert_info(too_short)
		return
	end
	local type = data(2, 2):uint()
	tree:add(f.namespace, data(0, 2))
	tree:add(f.e2e_type, data(2, 2))
	if bit32.band(type, 0xc000) == 0xc000 then
		tree:add_proto_expert_info(sequences)
		return
	end
	local at = 4
	for _, field in ipairs({ { 0x8000, f.e2e_sequence, 8 }, { 0x4000, f.e2e_sequence, 4 }, { 0x2000, f.e2e_seconds, 4 }, { 0x1000, f.e2e_fraction, 4 } }) do
		if bit32.btest(type, field[1]) then
			if at + field[3] > data:len() then
				tree:add_proto_expert_info(too_short)
				return
			end
			tree:add(field[2], data(at, field[3]))
			at = at + field[3]
		end
	end
end

dissect[4] = function(data, tree)
	if data:len() < 8 then
		tree:add_proto_expert_info(too_short)
		return
	end
	tree:add(f.namespace, data(0, 2))
	tree:add(f.dex_flags, data(2, 1))
	tree:add(f.dex_extensions, data(3, 1))
	tree:add(f.dex_type, data(4, 3))
	local at = 8
	for bit = 7, 0, -1 do
		if bit32.btest(data(3, 1):uint(), bit32.lshift(1, bit)) then
			if at + 4 > data:len() then
				tree:add_proto_expert_info(too_short)
				return
			end
			tree:add(bit == 7 and f.dex_flow or bit == 6 and f.dex_sequence or f.dex_unknown, data(at, 4))
			at = at + 4
		end
	end
end

-- Whether option 0x11, which has older users than RFC 9486, is IOAM: as Waymark reads it.
local function is_static_ioam(option)
	if option:len() < 8 or option(2, 1):uint() ~= 0 then
		return false
	end
	local type = option(3, 1):uint()
	return type == 3 or type == 4 and option:len() >= 12
end

local function add_ioam(option, tree)
	local type = option(3, 1):uint()
	if type == 0 then
		return
	end
	local subtree = tree:add(ioam, option, "In-situ OAM, " .. (option_types[type] or "Option-Type " .. type))
	subtree:add(f.type, option(3, 1))
	local known = dissect[type]
	if not known then
		return
	end
	if option:len() == 4 then
		subtree:add_proto_expert_info(too_short)
		return
	end
	known(option(4), subtree)
end

local function add_altmark(option, tree)
	local subtree = tree:add(altmark, option)
	if option:len() ~= 6 then
		subtree:add_proto_expert_info(altmark_length)
		return
	end
	subtree:add(a.flow, option(2, 4))
	subtree:add(a.loss, option(2, 4))
	subtree:add(a.delay, option(2, 4))
end

-- Wireshark finds the options of Hop-by-Hop and Destination Options headers.
local option_type = Field.new("ipv6.opt.type")

function ioam.dissector(_, _, tree)
	for _, found in ipairs({ option_type() }) do
		local buffer, at = found.source, found.offset
		local length = at + 2 <= buffer:len() and buffer(at + 1, 1):uint()
		if length and at + 2 + length <= buffer:len() then
			local option = buffer(at, 2 + length)
			if found.value == 0x31 and length >= 2 or found.value == 0x11 and is_static_ioam(option) then
				add_ioam(option, tree)
			elseif found.value == 0x12 then
				add_altmark(option, tree)
			end
		end
	end
end

register_postdissector(ioam)
