/** Parts that screens are made of, one family a file. */
export * from "./button.tsx";
export * from "./dialog.tsx";
export * from "./failure.tsx";
export * from "./form.tsx";
export * from "./layout.tsx";
export * from "./meter.tsx";
export * from "./pager.tsx";
export * from "./refresh.tsx";
export * from "./search.tsx";
export * from "./table.tsx";
export * from "./time.tsx";
