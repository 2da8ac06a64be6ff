# fault: the clock is read from the power management timer
# topo: rxe
# expect: tuning/clocksource-slow
# subject: *
# exit: 1
echo acpi_pm >/sys/devices/system/clocksource/clocksource0/current_clocksource
doctor
