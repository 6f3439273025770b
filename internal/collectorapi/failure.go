// SPDX-License-Identifier: Apache-2.0

package collectorapi

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/problem"
)

// unreached is the error of a question that got no answer, with the cure that it needs.
func (c *Client) unreached(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err // without the address, which the text has
	}
	var signer x509.UnknownAuthorityError
	var name x509.HostnameError
	var untrusted *tls.CertificateVerificationError
	cause := err
	if text := problem.OneLine(err.Error()); text != err.Error() { // a certificate may have any characters as a name
		cause = errors.New(text)
	}
	switch {
	case c.shown.Load() && isAlert(err): // it ended the connection: it wants a certificate of who asks
		return fmt.Errorf("%s answers, and %w: %w", c.at(), ErrUnknown, cause)
	case errors.Is(err, http.ErrSchemeMismatch):
		return problem.New(fmt.Sprintf("%s answers without TLS", c.at()), fmt.Sprintf("write http:// in %s", c.of.Words.Address))
	case errors.As(err, &signer):
		return problem.Wrap(
			fmt.Errorf("%s shows a certificate that is not trusted: %w", c.at(), cause),
			fmt.Sprintf("name the authority that signed it with %s", c.of.Words.CA),
		)
	case errors.As(err, &name):
		return problem.Wrap(
			fmt.Errorf("%s shows a certificate of another name: %w", c.at(), cause),
			fmt.Sprintf("ask by a name that it has, with %s", c.of.Words.Address),
		)
	case errors.As(err, &untrusted):
		return problem.Wrap(
			fmt.Errorf("%s shows a certificate that is not trusted: %w", c.at(), cause),
			fmt.Sprintf("renew it, or name the authority that signed it with %s", c.of.Words.CA),
		)
	}
	return problem.Wrap(
		fmt.Errorf("%w at %s: %w", ErrAbsent, c.at(), cause),
		fmt.Sprintf("start one with '%s', or name its address with %s",
			commandline.ToStart("waymark-collector", "waymark-collector run"), c.of.Words.Address),
	)
}

// isAlert reports whether the other end refused a connection by TLS, as one that wants a certificate does.
func isAlert(err error) bool {
	var alert tls.AlertError
	if errors.As(err, &alert) {
		return true
	}
	var of *net.OpError // crypto/tls has alerts that it receives in these
	return errors.As(err, &of) && of.Op == "remote error"
}

// unknown is the error when a collector does not let in who asks.
func (c *Client) unknown() error {
	if c.of.User == "" {
		return problem.Wrap(
			fmt.Errorf("%s answers, and %w", c.at(), ErrUnknown),
			fmt.Sprintf("give %s and %s", c.of.Words.User, c.of.Words.PasswordFile),
		)
	}
	return problem.Wrap(
		fmt.Errorf("%s answers, and %w: there is no user %q, or the password is another one", c.at(), ErrUnknown, c.of.User),
		fmt.Sprintf("look at %s and %s", c.of.Words.User, c.of.Words.PasswordFile),
	)
}
