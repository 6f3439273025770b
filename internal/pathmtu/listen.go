// SPDX-License-Identifier: Apache-2.0

package pathmtu

import "github.com/waymark-net/waymark/internal/icmpv6"

// messagesPerSecond is how many messages are read. One for each tunnel is
// enough.
const messagesPerSecond = 1000

// quoteLen is the part of a message that is examined.
const quoteLen = 128

// Listen receives the Packet Too Big messages of a network namespace.
func Listen() (*icmpv6.Listener, error) {
	return icmpv6.Listen(quoteLen, messagesPerSecond, icmpv6.TooBig)
}
