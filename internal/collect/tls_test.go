// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
)

// The error of a failed handshake says what to change, and on which side.
func TestHandshakeFaultsHaveCures(t *testing.T) {
	_, secured, pair := strangers(t)
	shake := func(config *tls.Config) func(net.Conn) {
		return func(conn net.Conn) {
			if c := tls.Client(conn, config); c.Handshake() == nil {
				c.Read(make([]byte, 1)) // of TLS 1.3, the refusal comes later
			}
		}
	}
	const unproven = "; give the exporter a certificate that an authority in --tls-client-ca has signed"
	for name, tt := range map[string]struct {
		exporter func(net.Conn)
		cure     string
	}{
		"it trusts another authority": {shake(&tls.Config{ServerName: "collector"}), "; the exporter does not trust this collector's certificate: give it the authority that signed --tls-cert"},
		"no certificate":              {shake(&tls.Config{InsecureSkipVerify: true}), unproven},
		"a stranger's certificate":    {shake(&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}), unproven},
		"no TLS":                      {func(conn net.Conn) { conn.Write([]byte("\x00\x0a\x00\x10 plain IPFIX")) }, "; the exporter does not use TLS: configure TLS there, or receive on tcp://"},
	} {
		t.Run(name, func(t *testing.T) {
			far, near := net.Pipe()
			go func() {
				defer far.Close()
				tt.exporter(far)
			}()
			go func() {
				<-t.Context().Done()
				near.Close()
			}()
			err := tls.Server(near, secured).Handshake()
			if err == nil {
				t.Fatal("the handshake succeeds")
			}
			if text := handshakeFault(err).Error(); !strings.HasPrefix(text, err.Error()+tt.cure) {
				t.Errorf("%s; want the cure %q", text, tt.cure)
			}
		})
	}
}
