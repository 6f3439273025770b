// SPDX-License-Identifier: Apache-2.0

package icmpv6

import "fmt"

// PortUnreachable is the code of an Unreachable that the destination itself sends: nothing
// listens at the port (RFC 4443 §3.1).
const PortUnreachable = 4

// unreachable are the codes of Unreachable (RFC 4443 §3.1).
var unreachable = [...]string{
	"no route",
	"prohibited",
	"beyond the scope of the source",
	"address unreachable",
	"port unreachable",
	"refused by policy",
	"route rejected",
}

// ErrorName names an error as RFC 4443 does.
func ErrorName(kind Type, code uint8) string {
	switch kind {
	case Unreachable:
		if int(code) < len(unreachable) {
			return unreachable[code]
		}
	case TooBig:
		return "packet too big"
	case TimeExceeded:
		if code == 1 {
			return "fragment reassembly time exceeded" // RFC 4443 §3.3
		}
		return "hop limit exceeded"
	case ParameterProblem:
		return "parameter problem"
	}
	return fmt.Sprintf("ICMPv6 error %d, code %d", kind, code)
}
