// SPDX-License-Identifier: Apache-2.0

import type { RefObject } from 'preact'
import { useEffect, useLayoutEffect, useState } from 'preact/hooks'

/** Whether the window is narrower than so many pixels. */
export function useNarrow(pixels: number): boolean {
  const query = `(max-width: ${pixels}px)`
  const [narrow, setNarrow] = useState(() => window.matchMedia(query).matches)
  useEffect(() => {
    const list = window.matchMedia(query), change = () => setNarrow(list.matches)
    change()
    list.addEventListener('change', change)
    return () => list.removeEventListener('change', change)
  }, [query])
  return narrow
}

/** The width of an element, in steps of 20 pixels; 0 until it is there. */
export function useWidth(of: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0)
  useLayoutEffect(() => {
    if (!of.current) return
    const measure = () => setWidth(Math.floor((of.current?.clientWidth ?? 0) / 20) * 20)
    const watch = new ResizeObserver(measure)
    watch.observe(of.current)
    measure()
    return () => watch.disconnect()
  }, [])
  return width
}
