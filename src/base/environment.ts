/**
 * The variables and bindings of a Worker, as every door and object gets them.
 *
 * The type says nothing of their names: the server runs in Workers of other projects, too, whose global type `Env`
 * belongs to them. `settings.ts` reads the variables, and `stubs.ts` finds the objects.
 */
export type Environment = object;
