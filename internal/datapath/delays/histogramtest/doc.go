// SPDX-License-Identifier: Apache-2.0

// Package histogramtest has a BPF program that finds the buckets of values, for a test.
package histogramtest
