// SPDX-License-Identifier: Apache-2.0

package address

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/internal/problem"
)

// Bracketed refuses an IPv6 address without brackets in SCHEME://ADDRESS or SCHEME://ADDRESS:PORT (RFC 3986
// section 3.2.2): what is meant as an address and a port is often a valid address, too, but another one.
// rest is what follows the scheme, standard the port that a text without one has.
func Bracketed(scheme, rest string, standard uint16) error {
	i := strings.LastIndexByte(rest, ':')
	if i < 0 || strings.HasPrefix(rest, "[") {
		return nil
	}
	host, port := rest[:i], rest[i+1:]
	if strings.HasSuffix(host, ":") && !strings.HasSuffix(host, "::") {
		host += ":" // the last colon ends the address, as in ::4739
	}
	isPort := isIPv6(host) && strings.Trim(port, "0123456789") == ""
	with := func(port string) string { return "write " + scheme + "://[" + host + "]:" + port }
	switch whole := isIPv6(rest); {
	case whole && isPort && port != "":
		return problem.New(fmt.Sprintf("%q may be an address, or the address %s and a port", rest, host),
			fmt.Sprintf("%s, or %s://[%s] if all of it is the address", with(port), scheme, rest))
	case whole:
		return problem.New(fmt.Sprintf("the IPv6 address %q has no brackets", rest), fmt.Sprintf("write %s://[%s]", scheme, rest))
	case isPort && port == "":
		return problem.New(fmt.Sprintf("the IPv6 address before the port of %q has no brackets", rest), with(strconv.Itoa(int(standard))))
	case isPort:
		return problem.New(fmt.Sprintf("the IPv6 address before the port of %q has no brackets", rest), with(port))
	}
	return nil
}

func isIPv6(text string) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && a.Is6()
}
