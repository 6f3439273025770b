// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/netsampler/goflow2/v2/decoders/netflow"
)

// goflow2Values are the values of records as goflow2 reads them, with its names
// of IANA's elements and the numbers of the others.
func goflow2Values(t *testing.T, messages [][]byte) (lines []string) {
	t.Helper()
	values := func(kind string, fields ...netflow.DataField) string {
		for _, v := range fields {
			name := netflow.IPFIXTypeToString(v.Type)
			if v.PenProvided || name == "Unassigned" {
				name = fmt.Sprintf("%d/%d", v.Pen, v.Type&0x7fff)
			}
			kind += fmt.Sprintf(" %s=%x", name, v.Value)
		}
		return kind
	}
	templates := netflow.CreateTemplateSystem()
	for _, b := range messages {
		var m netflow.IPFIXPacket
		if err := netflow.DecodeMessageVersion(bytes.NewBuffer(b), templates, nil, &m); err != nil {
			t.Fatal(err)
		}
		for _, set := range m.FlowSets {
			switch set := set.(type) {
			case netflow.DataFlowSet:
				for _, r := range set.Records {
					lines = append(lines, values("data", r.Values...))
				}
			case netflow.OptionsDataFlowSet:
				for _, r := range set.Records {
					lines = append(lines, values("options", slices.Concat(r.ScopesValues, r.OptionsValues)...))
				}
			}
		}
	}
	return lines
}

// The octets of every value, by RFC 7011 §6.1: times in nanoseconds are NTP's.
const (
	rawSeen   = "observationTimeNanoseconds=eeaba8bc00000005 flowStartMilliseconds=000001a1fc8cfa60 flowEndMilliseconds=000001a1fc8cfa60 "
	rawPacket = "sourceIPv6Address=20010db8000100000000000000000002 destinationIPv6Address=20010db8000200000000000000000002 " +
		"protocolIdentifier=11 flowLabelIPv6=00000000 "
	rawPorts  = "sourceTransportPort=1092 destinationTransportPort=0009 "
	rawLinks  = "observationPointId=00000002 ingressInterface=00000002 egressInterface=00000003 32473/17=02 "
	rawOption = "32473/1=04 10383/0=007b 32473/2=f80000 32473/26=05 32473/18=c0 "
	rawData   = "32473/19=eeaba8bc00000005 10383/1=3f 10383/2=000002 10383/3=00c9 10383/4=00ca 10383/5=6a5f7f7b 10383/6=000f423f " +
		"32473/6=0000474a"
	rawTrace = "ipTotalLength=00000080 observationPointId=00000002 ingressInterface=00000002 32473/1=00 10383/0=007b 32473/2=a00000 " +
		"32473/21=00000001 "
	rawNothing = "0000000000000000"
)

// goflow2 reads the exported values: all of a postcard, a flow, a trace with its path
// delay, a flow from edge to edge, and all options records.
func TestGoflow2(t *testing.T) {
	want := []string{
		"options observationDomainId=00000002 observationDomainName=706f7274686f73 10383/2=000002 10383/9=0000000153158e",
		"options ingressInterface=00000002 interfaceName=65746830 interfaceDescription= 10383/3=00c9 10383/10=ffffffff",
		"options ingressInterface=00000003 interfaceName=65746831 interfaceDescription=746f206172616d6973 10383/3=00ca 10383/10=000315da",
		"options observationDomainId=00000002 exportedMessageTotalCount=" + rawNothing + " exportedFlowRecordTotalCount=" + rawNothing + " exportedOctetTotalCount=" + rawNothing,
		"options observationDomainId=00000002 ignoredPacketTotalCount=000000000000007b observationTimeSeconds=6b012551 observationTimeSeconds=6b012a3b " +
			"32473/15=000000000000000b 32473/16=000000000000000c",
		"options exportingProcessId=PROCESS notSentFlowTotalCount=" + rawNothing + " notSentPacketTotalCount=" + rawNothing + " notSentOctetTotalCount=" + rawNothing +
			" observationTimeMilliseconds=" + rawNothing + " observationTimeMilliseconds=" + rawNothing +
			" 32473/22=" + rawNothing + " 32473/23=" + rawNothing + " 32473/24=" + rawNothing,
		"data " + rawSeen + rawPacket + rawPorts + "ipTotalLength=00000080 " + rawLinks + rawOption + "10383/15=12345678 10383/16=00000007 " + rawData,
		"data observationTimeNanoseconds=eeaba8bc00000000 " + rawPacket + rawPorts + rawLinks + "10383/0=007b 32473/2=f80000 10383/15=12345678 " +
			"packetDeltaCount=0000000000000064 octetDeltaCount=0000000000003200 flowStartMilliseconds=000001a1fc8cf678 flowEndMilliseconds=000001a1fc8cfa5f " +
			"flowStartNanoseconds=eeaba8bb00000000 flowEndNanoseconds=eeaba8bbffbe76c9 32473/9=00001388 32473/10=00004e20 32473/11=00000000000f1b30 " +
			"32473/12=0000000000000063 32473/13=0000000000000002 32473/14=0000000000000001 minimumTTL=3e maximumTTL=3f flowEndReason=02",
		"data " + rawSeen + rawPacket + rawPorts + rawTrace + "32473/5=00 32473/20=02 32473/3=0e 32473/4=00 32473/19=" + rawNothing +
			" 10383/1=3f 10383/2=000002 10383/5=ffffffff",
		"data " + rawSeen + rawPacket + rawPorts + rawTrace + "32473/5=01 32473/20=02 32473/3=0e 32473/4=00 0/530=0000001f 0/531=0000001f 0/532=0000001f " +
			"32473/19=ee09fdfc00000000 10383/1=3e 10383/2=000003 10383/5=6a5f7f7c",
		"data " + rawSeen + strings.Replace(
			rawPacket,
			"=11 ",
			"=3a ",
			1,
		) + "ipTotalLength=00000080 " + rawLinks + rawOption + "10383/16=00000007 " + rawData,
		"data observationTimeNanoseconds=eeaba8bc00000000 sourceIPv6Address=20010db8000100000000000000000002 destinationIPv6Address=20010db8000200000000000000000002 " +
			"flowLabelIPv6=00012345 10383/0=007b 32473/67=7000 32473/65=0000000000000062 flowStartNanoseconds=eeaba8bb00000000 flowStartMilliseconds=000001a1fc8cf678 " +
			"flowEndNanoseconds=eeaba8bbffbe76c9 flowEndMilliseconds=000001a1fc8cfa5f 32473/13=0000000000000002 32473/68=0000000000000003 32473/14=0000000000000004 " +
			"32473/69=0000000000000005 32473/70=0000000000000006 32473/47=000000000000464f 32473/71=0000000000007918 32473/72=00000000001cfde0 32473/46=000000000000005f " +
			"0/530=00000014 0/531=00000011 0/532=0000001f",
	}
	got := goflow2Values(t, datagrams(t, everything(t)))
	process := regexp.MustCompile("exportingProcessId=([0-9a-f]{8}) ")
	for i, line := range got {
		if m := process.FindStringSubmatch(line); m != nil && m[1] != "00000000" { // they are numbered as they are made
			got[i] = strings.Replace(line, m[1], "PROCESS", 1)
		}
	}
	if len(got) != len(want)+6 || !slices.Equal(got[:len(want)], want) { // options again, at the end
		t.Errorf("goflow2 reads\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
