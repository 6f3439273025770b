// SPDX-License-Identifier: Apache-2.0

// Command postcards sends postcards to a collector as the nodes of a path would, each node from its own socket and
// with its templates in its first message only, and counts those that a collector has kept. Interoperability
// tests restart the collector meanwhile.
//
//	postcards send ADDRESS:PORT RATE FIRST    sends RATE packets a second, the first one with the number FIRST, until it is
//	                                          interrupted; prints how many postcards it sent and how many messages were refused
//	postcards count URL                       prints how many postcards the collector at that address of its API has kept
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/waymark-net/waymark/internal/collect/sender"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "postcards:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: postcards send ADDRESS:PORT RATE FIRST, or postcards count URL")

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 4 && args[0] == "send":
		rate, err := strconv.ParseUint(args[2], 10, 20)
		first, fault := strconv.ParseUint(args[3], 10, 32)
		if err != nil || fault != nil {
			return errUsage
		}
		return send(ctx, args[1], int(rate), uint32(first))
	case len(args) == 2 && args[0] == "count":
		return count(ctx, args[1])
	}
	return errUsage
}

// most bounds how long it sends.
const most = 5 * time.Minute

func send(ctx context.Context, to string, rate int, first uint32) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	s, err := sender.New(to)
	if err != nil {
		return err
	}
	defer s.Close()
	s.Once = true
	s.Skip(first)
	var nodes [sender.Nodes]net.Conn
	for i := range nodes {
		if nodes[i], err = net.Dial("udp", to); err != nil {
			return err
		}
		defer nodes[i].Close()
	}
	refused := 0
	s.Deliver = func(node int, message []byte) error {
		_, err := nodes[node].Write(message)
		if errors.Is(err, syscall.ECONNREFUSED) { // about the message before
			refused++
			_, err = nodes[node].Write(message)
		}
		return err
	}
	sent, err := s.Rate(ctx, rate)
	if err != nil {
		return err
	}
	fmt.Println(sent*sender.Nodes, refused)
	return nil
}

// count adds up what each node reported, on all paths.
func count(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/paths?since=1h", http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Error string          `json:"error"`
		Cut   json.RawMessage `json:"cut"`
		Nodes []struct {
			Packets uint64 `json:"packets"`
		} `json:"nodes"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK || answer.Cut != nil {
		return fmt.Errorf("%s: %s%s", response.Status, answer.Error, answer.Cut)
	}
	sum := uint64(0)
	for _, n := range answer.Nodes {
		sum += n.Packets
	}
	fmt.Println(sum)
	return nil
}
