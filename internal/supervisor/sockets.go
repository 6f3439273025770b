// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"
)

// Sockets are those that the service manager keeps open while the service is restarted, or after it was killed, so
// that nobody who sends to them is refused (systemd's file descriptor store). A nil Sockets keeps none.
type Sockets struct {
	manager *Manager

	mu   sync.Mutex
	kept map[string][]*os.File // that were inherited, by name
}

// Sockets takes over what the manager kept for this process. It is called once.
func (m *Manager) Sockets() *Sockets {
	if m == nil {
		return nil
	}
	s := &Sockets{manager: m, kept: map[string][]*os.File{}}
	for _, f := range activation.Files(true) {
		s.kept[f.Name()] = append(s.kept[f.Name()], f)
	}
	return s
}

// Inherited are the sockets that were kept under a name. The caller closes them; the manager still has them.
func (s *Sockets) Inherited(name string) []*os.File {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.kept[name]
	delete(s.kept, name)
	return list
}

// Keep gives the manager a copy of a socket under a name, which has no colon. Several may have one name.
func (s *Sockets) Keep(name string, socket syscall.RawConn) {
	if s == nil {
		return
	}
	err := socket.Control(func(fd uintptr) {
		// Without FDPOLL=0, systemd closes a socket on which an error waits, such as one of ICMP.
		s.manager.send("FDSTORE=1\nFDPOLL=0\nFDNAME="+name, int(fd))
	})
	if err != nil {
		s.manager.log.Warn("a socket is not kept for a restart", "error", err)
	}
}

// Remove makes the manager close what it kept under a name.
func (s *Sockets) Remove(name string) {
	if s != nil {
		s.manager.send("FDSTOREREMOVE=1\nFDNAME=" + name)
	}
}

// RemoveRest closes what was inherited and has not been asked for, here and at the manager.
func (s *Sockets) RemoveRest() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, list := range s.kept {
		for _, f := range list {
			f.Close()
		}
		s.Remove(name)
	}
	clear(s.kept)
}

// sendFiles sends one message with descriptors to the service manager, if there is one.
func sendFiles(message string, files []int) error {
	to := os.Getenv("NOTIFY_SOCKET")
	if to == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: to, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	raw, err := conn.SyscallConn() // net has no message with descriptors on a connected socket
	if err != nil {
		return err
	}
	var sent error
	err = raw.Write(func(fd uintptr) bool {
		sent = unix.Sendmsg(int(fd), []byte(message), unix.UnixRights(files...), nil, 0)
		return !errors.Is(sent, unix.EAGAIN)
	})
	if err = errors.Join(err, sent); err != nil {
		return fmt.Errorf("give a socket to the service manager: %w", err)
	}
	return nil
}
