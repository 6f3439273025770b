// SPDX-License-Identifier: Apache-2.0

package ipfix

// reportingElements are ours for what an exporter says of its own reports, so that a
// collector can distinguish a lost packet from a postcard that did not come. They must
// never change their numbers, like the other elements of ours.
var reportingElements = []Element{
	{ID: 87, Name: "ioamReportedUntilNanoseconds", Type: DateTimeNanoseconds, Units: Nanoseconds, Description: "Postcards about packets that the node saw before this time, and not before ioamReportedSinceNanoseconds, came before this record in the transport session, except those that its counters count."},
	{ID: 88, Name: "ioamReportedSinceNanoseconds", Type: DateTimeNanoseconds, Units: Nanoseconds, Description: "Start of that time: postcards about earlier packets may have gone to an earlier session, or have been dropped."},
	{ID: 89, Name: "ioamCountedUntilNanoseconds", Type: DateTimeNanoseconds, Units: Nanoseconds, Description: "When the counters of this record had been read."},
	{ID: 90, Name: "ioamServedSinceNanoseconds", Type: DateTimeNanoseconds, Units: Nanoseconds, Description: "Since when the node's interfaces and namespaces are as they are."},
	{ID: 91, Name: "ioamPostcardSamplingInterval", Type: Unsigned32, Units: Packets, Description: "The node makes a postcard of one packet in this number; of packets with a Sequence Number, of those whose number it divides."},
}
