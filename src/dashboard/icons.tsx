/** Icons: paths in a box of 24 units, in the colour of the text beside them. Buttons name them, so they are hidden from screen readers. */

const PATHS = {
  overview: "M3 17l5-6 4 3 6-8 M3 21h18",
  records: "M4 6h16 M4 12h16 M4 18h10",
  channels: "M5 12a7 7 0 0 1 14 0 M8.5 12a3.5 3.5 0 0 1 7 0 M12 12v8",
  connections: "M8 7h8a4 4 0 0 1 0 10h-2 M16 17H8A4 4 0 0 1 8 7h2",
  semaphores: "M8 3h8v18H8z M12 7.5v.01 M12 12v.01 M12 16.5v.01",
  limits: "M4 15a8 8 0 0 1 16 0 M12 15l4-5 M4 19h16",
  limiter: "M5 4v16 M12 4v16 M19 4v16 M2.5 9h5 M9.5 15h5 M16.5 8h5",
  shards: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18z M12 3v9 M12 12l7 5.5",
  close: "M6 6l12 12 M18 6L6 18",
  reload: "M20 12a8 8 0 1 1-2.5-5.8 M20 3v4h-4",
  theme: "M12 4a8 8 0 1 0 8 8 6 6 0 0 1-8-8z",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8z M12 2v2 M12 20v2 M2 12h2 M20 12h2 M5 5l1.4 1.4 M17.6 17.6L19 19 M5 19l1.4-1.4 M17.6 6.4L19 5",
  system: "M4 5h16v11H4z M9 20h6 M12 16v4",
  help: "M9 9a3 3 0 1 1 4 2.8c-.8.4-1 .9-1 1.7 M12 17v.01",
  leave: "M10 4H5v16h5 M14 8l4 4-4 4 M18 12H9",
  enter: "M14 4h5v16h-5 M4 12h10 M10 8l4 4-4 4",
  add: "M12 5v14 M5 12h14",
  copy: "M9 9h11v11H9z M15 9V4H4v11h5",
  check: "M5 13l4 4L19 7",
  warning: "M12 4l9 16H3z M12 10v4 M12 17v.01",
  next: "M9 6l6 6-6 6",
  previous: "M15 6l-6 6 6 6",
  sort: "M8 10l4-5 4 5 M8 14l4 5 4-5",
  remove: "M5 7h14 M9 7V4h6v3 M7 7l1 13h8l1-13",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
