// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"net"
	"os"
	"os/exec"
	"testing"
)

// An exchange may follow another on its port while processes are started.
func TestListenWaitsForItsPort(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	enough, done := make(chan struct{}), make(chan int)
	go func() {
		started := 0
		defer func() { done <- started }()
		for {
			if exec.Command(self, "-test.list=^$").Run() == nil {
				started++
			}
			select {
			case <-enough:
				return
			default:
			}
		}
	}()
	at := &net.UDPAddr{IP: net.IPv6loopback}
	for i := range 3000 {
		var conn *net.UDPConn
		err := listen(func() (err error) { conn, err = net.ListenUDP("udp6", at); return err })
		if err != nil {
			t.Errorf("exchange %d: %v", i, err)
			break
		}
		at = conn.LocalAddr().(*net.UDPAddr)
		conn.Close()
	}
	close(enough)
	if started := <-done; started == 0 {
		t.Error("no process was started meanwhile")
	}
}
