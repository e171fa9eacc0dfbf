/**
 * What crosses the border of an object is copied, as the platform's calls do: plain data, typed arrays with their whole buffers,
 * and errors with their own properties. `structuredClone` does the same, and takes ten times as long for the small values of most
 * calls.
 */

/** @throws Error as the platform does for a value that can't be copied, such as a function */
export function clone<T>(value: T): T {
  return cloned(value) as T;
}

function cloned(value: unknown): unknown {
  switch (typeof value) {
    case "function":
    case "symbol":
      throw new DOMException("Could not serialize the value: it is a function", "DataCloneError");
    case "object":
      return value === null ? null : clonedObject(value);
    default:
      return value;
  }
}

function clonedObject(value: object): unknown {
  if (value instanceof Uint8Array) return viewOf(Uint8Array, value);
  if (value instanceof Float64Array) return viewOf(Float64Array, value);
  if (value instanceof Uint32Array) return viewOf(Uint32Array, value);
  if (Array.isArray(value)) return value.map(cloned);
  if (value instanceof Error) return copyError(value);
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === null) {
    const copy: Record<string, unknown> = {};
    for (const [key, field] of Object.entries(value)) copy[key] = cloned(field);
    return copy;
  }
  return structuredClone(value);
}

function viewOf<View extends Uint8Array | Float64Array | Uint32Array>(
  Class: new (buffer: ArrayBufferLike, byteOffset: number, length: number) => View,
  { buffer, byteOffset, length }: View,
): View {
  return new Class(buffer.slice(0), byteOffset, length);
}

/** Names of errors that keep their class on the way. */
const CLASSES: Readonly<Record<string, new (message: string) => Error>> = {
  Error,
  RangeError,
  TypeError,
  SyntaxError,
  ReferenceError,
};

/** An error as the caller of a method sees it, whatever that has thrown. */
export function cloneError(error: unknown): Error {
  return Object.assign(copyError(error), { remote: true });
}

/** Message and own properties of an error; its name, but only a built-in class. */
export function copyError(error: unknown): Error {
  if (!(error instanceof Error)) return new Error(String(error));
  const copy = new (CLASSES[error.name] ?? Error)(error.message);
  for (const [key, field] of Object.entries(error)) {
    Object.assign(copy, { [key]: cloned(field) });
  }
  if (error.name !== copy.name) copy.name = error.name;
  return copy;
}
