// The colours that were chosen in the console hold here too; without this script the system's do.
import { startTheme } from "../shell/theme.js";

startTheme();
