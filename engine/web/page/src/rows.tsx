// A list of any length, of which only the rows in sight are in the page.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** Rows beyond the edges, so that scrolling shows no gaps. */
const BEYOND = 10;

interface Props {
  /** How many rows there are. */
  count: number;
  /** The height of a row in pixels. */
  height: number;
  label: string;
  /** The row that is chosen, from 0; -1 for none. */
  chosen: number;
  onChoose: (index: number) => void;
  /** Called when the arrow keys lead to another row; without it they are somebody else's. */
  onMove?: (index: number) => void;
  /** Whether new rows at the end come into sight by themselves while the end is seen. */
  isFollowing?: boolean;
  id: string;
  class?: string;
  children: (index: number) => ComponentChildren;
}

export function Rows({ count, height, label, chosen, onChoose, onMove, isFollowing = false, id, class: kind = "", children }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const space = useRef<HTMLDivElement>(null);
  const [first, setFirst] = useState(0);
  const [fitting, setFitting] = useState(24);
  useLayoutEffect(() => {
    const element = box.current!;
    // Rows are drawn anew only when other ones come into sight.
    const measure = () => {
      setFirst(Math.max(0, Math.floor(element.scrollTop / height) - BEYOND));
      setFitting(Math.ceil(element.clientHeight / height) + 2 * BEYOND);
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", measure);
    };
  }, [height]);
  const wasAtEnd = useRef(true);
  useLayoutEffect(() => {
    space.current!.style.height = `${count * height}px`;
    const element = box.current!;
    if (isFollowing && wasAtEnd.current) element.scrollTop = element.scrollHeight;
  }, [count, height, isFollowing]);
  useEffect(() => {
    const element = box.current!;
    const look = () => (wasAtEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < height);
    element.addEventListener("scroll", look, { passive: true });
    return () => element.removeEventListener("scroll", look);
  }, [height]);
  useLayoutEffect(() => {
    const element = box.current!;
    const top = chosen * height;
    if (chosen < 0 || chosen >= count) return;
    if (top < element.scrollTop || top + height > element.scrollTop + element.clientHeight) {
      element.scrollTop = Math.max(0, top - element.clientHeight / 3);
    }
  }, [chosen, height, count > chosen]);
  const press = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (onMove && step) onMove(Math.max(0, Math.min(count - 1, chosen + step)));
    else if (onMove && event.key === "Enter" && chosen >= 0) onChoose(chosen);
    else return;
    event.preventDefault();
  };
  const last = Math.min(count, first + fitting);
  const indices = Array.from({ length: Math.max(0, last - first) }, (_, index) => first + index);
  return (
    <div
      class={`rows ${kind}`}
      ref={box}
      role="listbox"
      aria-label={label}
      tabIndex={0}
      onKeyDown={press}
      aria-activedescendant={chosen >= first && chosen < last ? `${id}-${chosen}` : undefined}
    >
      <div ref={space} role="presentation">
        {indices.map((index) => (
          <Row
            key={index}
            id={`${id}-${index}`}
            top={index * height}
            isChosen={index === chosen}
            position={index + 1}
            count={count}
            onClick={() => onChoose(index)}
          >
            {children(index)}
          </Row>
        ))}
      </div>
    </div>
  );
}

interface RowProps {
  id: string;
  top: number;
  isChosen: boolean;
  position: number;
  count: number;
  onClick: () => void;
  children: ComponentChildren;
}

function Row({ id, top, isChosen, position, count, onClick, children }: RowProps) {
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    element.current!.style.transform = `translateY(${top}px)`;
  }, [top]);
  return (
    <div
      ref={element}
      id={id}
      class={isChosen ? "row chosen" : "row"}
      role="option"
      aria-selected={isChosen}
      aria-setsize={count}
      aria-posinset={position}
      onClick={onClick}
    >
      {children}
    </div>
  );
}
