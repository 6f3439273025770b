// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/model"
)

// indexOffset is where struct tcmsg has the interface's index.
const indexOffset = 4

func (Kernel) WatchFilters(ctx context.Context, changed func(model.IfIndex)) error {
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_TC)
	if err != nil {
		return fmt.Errorf("listen to changes of filters: %w", err)
	}
	defer socket.Close()
	defer context.AfterFunc(ctx, socket.Close)()
	for {
		messages, _, err := socket.Receive()
		if err != nil {
			return fmt.Errorf("read changes of filters: %w", err)
		}
		for _, m := range messages {
			if len(m.Data) >= indexOffset+4 {
				changed(model.IfIndex(binary.NativeEndian.Uint32(m.Data[indexOffset:])))
			}
		}
	}
}
