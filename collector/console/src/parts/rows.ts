// SPDX-License-Identifier: Apache-2.0

// Of a list in a box that scrolls, only the rows near those that can be seen are in the document.
import type { RefObject } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'

/** Rows that are kept above and below. */
const spare = 12

/** The first row of a part, and the one after its last: of so many rows, with the box scrolled to top. */
export function part(rows: number, top: number, view: number, rowHeight: number): [number, number] {
  const seen = Math.ceil(view / rowHeight)
  // A list that became shorter leaves the box scrolled too far, until the browser says so.
  const at = Math.min(Math.max(0, Math.floor(top / rowHeight)), Math.max(0, rows - seen))
  return [Math.max(0, at - spare), Math.min(rows, at + seen + 1 + spare)]
}

interface Part {
  box: RefObject<HTMLDivElement | null>
  first: number
  last: number
  /** The height of the box, in pixels. */
  view: number
  onScroll: (event: Event) => void
}

/** Rows have all the same height. view is that of the box, until it is known. */
export function usePart(rows: number, rowHeight: number, view: number): Part {
  const box = useRef<HTMLDivElement>(null)
  const [top, setTop] = useState(0), [height, setHeight] = useState(view)
  useLayoutEffect(() => { if (box.current) setHeight(box.current.clientHeight) })
  const [first, last] = part(rows, top, height, rowHeight)
  return { box, first, last, view: height, onScroll: (event) => setTop((event.currentTarget as HTMLElement).scrollTop) }
}
