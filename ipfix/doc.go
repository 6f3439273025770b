// SPDX-License-Identifier: Apache-2.0

// Package ipfix implements the IP Flow Information Export protocol of RFC 7011: its
// information model (RFC 7012), an encoder for Exporting Processes and a decoder for
// Collecting Processes. It opens no socket.
//
// A [Registry] knows information elements. [Registry.Template] makes a
// [Template] of their names, once; everything that can be computed then is.
//
// To export, [Template.Record] writes the values of one record, in the order of
// the template's fields, to the end of a buffer. An [Encoder], one for each
// transport session and observation domain, packs records into messages: it
// counts sequence numbers, sends a template before the first record that needs
// it, and keeps every message within a length. One encoded record may go to many
// collectors, each with its own encoder.
//
//	e.Start(buf[:0])
//	for _, r := range records {
//		err := e.Add(template, r)
//		for errors.Is(err, ipfix.ErrMessageFull) {
//			send(e.Finish(time.Now()))
//			e.Start(buf[:0])
//			err = e.Add(template, r)
//		}
//	}
//	send(e.Finish(time.Now()))
//
// To collect, [Decoder.Open] gives the [Session] of an exporter, and
// [Session.Decode] reads a message of it: datagrams as they are, streams cut by
// [ReadMessage]. A malformed message is discarded as a whole, without an effect.
// Every error has a [Cause], to be counted; all that a sender makes the
// decoder keep is bounded by [Limits]. A [ListReader] reads structured data (RFC 6313).
//
// Octets are in network byte order, lengths in octets.
package ipfix
