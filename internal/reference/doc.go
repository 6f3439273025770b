// SPDX-License-Identifier: Apache-2.0

// Package reference is an IOAM encapsulating, transit and decapsulating node in
// straightforward code ([Node]). Its input is packet bytes, interface and time;
// its output is verdict, new bytes, outcome, record and exports. It implements
// docs/data-plane independently of the BPF programs, which must agree with it
// byte for byte.
//
// The agent uses it where speed does not matter: for the node data of an export,
// and to check what ICMPv6 errors quote.
package reference
