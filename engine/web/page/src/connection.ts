// Whether the server answers, for all views at once. Each request and each stream tells it what it met.

import { useEffect, useState } from "preact/hooks";

let isLost = false;
const listeners = new Set<(isLost: boolean) => void>();

export function tellConnection(isOpen: boolean) {
  if (isLost === !isOpen) return;
  isLost = !isOpen;
  for (const listener of listeners) listener(isLost);
}

export function useIsLost(): boolean {
  const [state, setState] = useState(isLost);
  useEffect(() => {
    listeners.add(setState);
    return () => void listeners.delete(setState);
  }, []);
  return state;
}
