// SPDX-License-Identifier: Apache-2.0

package report

import "net/http"

// follow sends what write writes of all that comes, until the client or the agent ends, write is false because the
// client has gone, or the channel is closed because the client was too slow.
func follow[T any](w http.ResponseWriter, r *http.Request, closing <-chan struct{}, next <-chan T, write func(T) bool) {
	for control := http.NewResponseController(w); control.Flush() == nil; {
		select {
		case <-r.Context().Done():
			return
		case <-closing:
			return
		case one, open := <-next:
			if !open || !write(one) {
				return
			}
		}
	}
}
