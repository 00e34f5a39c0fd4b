// Types of what the console uses of preact-htm.js, for `tsc --checkJs` (make lint). Browsers do not get this file.
export function html(texts: TemplateStringsArray, ...values: any[]): any;
export function render(drawn: any, into: Element): void;
export function createContext<T>(value: T): { Provider: any; value?: T };
export function useContext<T>(context: { Provider: any; value?: T }): T;
export function useState<T>(first: T): [T, (next: T | ((old: T) => T)) => void];
export function useEffect(effect: () => any, dependencies: any[]): void;
export function useMemo<T>(make: () => T, dependencies: any[]): T;
export function useRef<T>(first: T): { current: T };
export function useCallback<T>(callback: T, dependencies: any[]): T;
