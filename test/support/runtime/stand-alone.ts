/** Tests run the server as a Worker of its own, also those that import a part of it without the Worker's main module. */
import { deploy, STAND_ALONE } from "../../../src/base/deployment.ts";

deploy(STAND_ALONE);
